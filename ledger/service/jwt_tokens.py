"""Bearer JWTs (RFC 7519): signature by a key of a file, issuer, audience and expiry checked."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jwt

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


class TokenInvalid(Exception):
    """The token proves nothing here. Its text holds nothing of the token."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Who an issuer says the bearer is."""

    issuer: str
    subject: str


class JwtTokens:
    """Checks tokens of one issuer for one audience.

    A signature costs some 100 us, so a verified token is remembered by its digest until it expires.
    Keys are read again when the file was replaced.
    """

    def __init__(self, *, issuer: str, audience: str, keys: Path) -> None:
        self._issuer = issuer
        self._audience = audience
        self._path = keys
        self._stamp = (0, 0, 0)
        self._keys: dict[str, jwt.PyJWK] = {}
        self._remembered: OrderedDict[bytes, tuple[float, Subject]] = OrderedDict()
        self._read_keys()

    def subject_of(self, token: str) -> Subject:
        """Whom a token speaks for. Raises `TokenInvalid`."""
        self._read_keys()
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
        except jwt.ExpiredSignatureError:
            raise TokenInvalid("has expired") from None
        except jwt.InvalidTokenError:
            raise TokenInvalid("does not verify for this issuer and audience") from None
        subject = claims["sub"]
        if not isinstance(subject, str) or not subject:
            raise TokenInvalid("has no subject")
        return Subject(self._issuer, subject), float(claims["exp"]) + _LEEWAY_S

    def _read_keys(self) -> None:
        stat = self._path.stat()
        stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if stamp == self._stamp:
            return
        read = jwt.PyJWKSet.from_json(self._path.read_text(encoding="utf-8"))
        self._keys = {key.key_id or "": key for key in read.keys}
        self._remembered.clear()
        self._stamp = stamp
