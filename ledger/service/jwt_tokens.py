"""Bearer JWTs (RFC 7519): signature by a key of a file, issuer, audience and expiry checked."""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jwt
import structlog

_ALGORITHMS: Final = [
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "EdDSA",
]
"""Asymmetric only: with a shared secret whoever checks a token could make one."""
_LEEWAY_S: Final = 10
_REMEMBERED_MAX: Final = 1_024
_NO_STAMP: Final = (0, 0, 0)
_log: Final = structlog.get_logger("ledger.service")


class TokenInvalid(Exception):
    """The token proves nothing here. Its text holds nothing of the token."""


class KeysUnavailable(Exception):
    """The issuer's keys cannot be read now, so nobody can say whether the token is good."""


class _NotAKeySet(ValueError):
    """The file is not a whole JSON Web Key Set (RFC 7517, section 5)."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Who an issuer says the bearer is."""

    issuer: str
    subject: str


class JwtTokens:
    """Checks tokens of one issuer for one audience.

    A signature costs some 100 us, so a verified token is remembered by its digest until it expires.
    Keys are read again when the file was replaced. A file that is missing, unreadable or half
    written keeps the keys read before: whoever writes it locks nobody out meanwhile. Only a whole
    key set takes keys away, an empty one all of them.
    """

    def __init__(self, *, issuer: str, audience: str, keys: Path) -> None:
        self._issuer = issuer
        self._audience = audience
        self._path = keys
        self._stamp = _NO_STAMP
        self._fault = ""
        self._keys: dict[str, jwt.PyJWK] = {}
        self._remembered: OrderedDict[bytes, tuple[float, Subject]] = OrderedDict()
        self._refresh()

    def subject_of(self, token: str) -> Subject:
        """Whom a token speaks for. Raises `TokenInvalid`; and `KeysUnavailable` where the key that
        would decide may stand in a file that cannot be read now."""
        self._refresh()
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._remembered.get(digest)
        if known is not None and known[0] > time.time():
            return known[1]
        subject, expires_s = self._verified(token)
        self._remembered[digest] = (expires_s, subject)
        while len(self._remembered) > _REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return subject

    def _verified(self, token: str) -> tuple[Subject, float]:
        try:
            named = jwt.get_unverified_header(token).get("kid", "")
            key = self._keys.get(named)
            if key is None and self._fault:
                raise KeysUnavailable
            if key is None:
                raise TokenInvalid("is signed by a key that is not in the issuer's key file")
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm_name] if key.algorithm_name in _ALGORITHMS else [],
                audience=self._audience,
                issuer=self._issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
            expires_s = float(claims["exp"]) + _LEEWAY_S
        except jwt.ExpiredSignatureError:
            raise TokenInvalid("has expired") from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            # The library lets some of what a hostile token holds through as Python's own errors: an
            # `exp` of 1e999, or arrays nested deeper than its parser goes.
            raise TokenInvalid("does not verify for this issuer and audience") from None
        subject = claims["sub"]
        if not isinstance(subject, str) or not subject:
            raise TokenInvalid("has no subject")
        return Subject(self._issuer, subject), expires_s

    def _refresh(self) -> None:
        """Reads the file if it was replaced. Costs one stat."""
        try:
            stat = self._path.stat()
            stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if stamp != self._stamp:
                self._keys = _read_keys(self._path)
                self._remembered.clear()
                self._stamp = stamp
        except (OSError, ValueError, RecursionError, jwt.PyJWTError) as fault:
            # The stamp stays that of the last good reading, so that every call looks again.
            self._note(str(fault) if isinstance(fault, _NotAKeySet) else type(fault).__name__)
        else:
            self._note("")

    def _note(self, fault: str) -> None:
        if fault == self._fault:
            return
        self._fault = fault
        if fault:
            _log.error("JWT keys cannot be read", fault=fault, keys_kept=len(self._keys))
        else:
            _log.info("JWT keys were read", keys=len(self._keys))


def _read_keys(path: Path) -> dict[str, jwt.PyJWK]:
    """The usable keys by id. Raises OSError, ValueError or `jwt.PyJWTError`."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
        raise _NotAKeySet("the file is not a JSON Web Key Set")
    if not document["keys"]:
        return {}
    return {key.key_id or "": key for key in jwt.PyJWKSet.from_dict(document).keys}
