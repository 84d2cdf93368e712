"""Who calls: from the credential alone, never from the request (contract, section 12)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

from cryptography import x509

from ledger.core.commands import Caller
from ledger.principals import PrincipalsFile
from ledger.service.jwt_tokens import JwtTokens, KeysUnavailable, TokenInvalid

AUTHORIZATION: Final = "authorization"
_BEARER: Final = "bearer "
_SPIFFE: Final = b"spiffe://"


class NotAuthenticated(Exception):
    """Nobody known here stands behind the call. Says why, and nothing of the credential."""


class NotDecidable(Exception):
    """Whether somebody known here stands behind the call cannot be said now. Says why."""


class Identity:
    """Finds the caller of a request: bearer token or JWT first, else the client certificate.

    A bearer that is wrong is refused even where the certificate would do: whoever sends one means
    to be that principal.
    """

    def __init__(self, principals: PrincipalsFile, jwt_tokens: JwtTokens | None = None) -> None:
        self._principals = principals
        self._jwt = jwt_tokens

    def caller(
        self,
        metadata: Iterable[tuple[str, str | bytes]],
        auth_context: Callable[[], Mapping[str, Iterable[bytes]]],
    ) -> Caller:
        """The caller. `auth_context` is asked only where no bearer came. Raises
        `NotAuthenticated`, or `NotDecidable` where that can be asked again later."""
        given = [value for name, value in metadata if name == AUTHORIZATION]
        if len(given) > 1:
            raise NotAuthenticated("The call carries more than one authorization.")
        if given:
            return self._of_bearer(given[0])
        return self._of_certificate(auth_context())

    def _of_bearer(self, value: str | bytes) -> Caller:
        if not isinstance(value, str) or not value[: len(_BEARER)].lower() == _BEARER:
            raise NotAuthenticated("The authorization is not of the form 'Bearer TOKEN'.")
        token = value[len(_BEARER) :].strip()
        principals = self._principals.current()
        if self._jwt is not None and token.count(".") == 2:
            try:
                subject = self._jwt.subject_of(token)
            except TokenInvalid as fault:
                raise NotAuthenticated(f"The bearer token {fault}.") from None
            except KeysUnavailable:
                raise NotDecidable(
                    "The keys of the tokens' issuer cannot be read now, so the bearer token cannot "
                    "be checked."
                ) from None
            found = principals.of_jwt(issuer=subject.issuer, subject=subject.subject)
            if found is None:
                raise NotAuthenticated("The token's subject is no principal of this server.")
            return found
        found = principals.of_token(token)
        if found is None:
            raise NotAuthenticated("The bearer token is not one of this server's.")
        return found

    def _of_certificate(self, auth_context: Mapping[str, Iterable[bytes]]) -> Caller:
        names = _certificate_names(auth_context)
        if not names:
            raise NotAuthenticated("The call carries no credential.")
        principals = self._principals.current()
        for name in names:
            found = principals.of_certificate(name)
            if found is not None:
                return found
        raise NotAuthenticated("The client certificate is no principal of this server.")


def _certificate_names(auth_context: Mapping[str, Iterable[bytes]]) -> list[str]:
    """The SPIFFE URI of a verified client certificate, then its subject (RFC 4514)."""
    names = [
        name.decode("utf-8", "replace")
        for name in auth_context.get("x509_subject_alternative_name", ())
        if name.startswith(_SPIFFE)
    ]
    names += [_subject(pem) for pem in auth_context.get("x509_pem_cert", ())]
    return [name for name in names if name]


@lru_cache(maxsize=256)
def _subject(pem: bytes) -> str:
    """Empty where the certificate is of a form that cannot be read here: it names nobody."""
    try:
        return x509.load_pem_x509_certificate(pem).subject.rfc4514_string()
    except ValueError:
        return ""
