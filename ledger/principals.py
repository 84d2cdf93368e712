"""Principals: who may call, for which tenant, with which roles (contract, section 12).

`principals.json` maps credentials to principals: a token by its SHA-256, a JWT by (issuer,
subject), a client certificate by its SPIFFE URI or subject. It holds no secret; tokens stand in
files of their own, one each. One operating system user can read them all: the embedded default
keeps roles apart, not people.

    {"v": 1, "principals": [
      {"id": "runtime", "tenant": "default", "kind": "runtime", "roles": ["drive"],
       "token_sha256": "<64 hex>"}]}
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from ledger.core.commands import Caller
from ledger.core.errors import Malformed
from ledger.core.ids import PrincipalId, Tenant, client_id, hash_bytes
from ledger.core.vocabulary import ActorKind, Auth, Role
from ledger.keyring import write_secret

FILE_NAME: Final = "principals.json"
TOKENS_FOLDER: Final = "tokens"
TOKEN_BYTES: Final = 32
_PREFIX: Final = 8
_MEMBERS: Final = frozenset({"id", "tenant", "kind", "roles"})
_CREDENTIALS: Final = frozenset({"token_sha256", "jwt", "certificate"})

EMBEDDED: Final[Mapping[str, tuple[ActorKind, tuple[Role, ...]]]] = {
    "runtime": (ActorKind.RUNTIME, (Role.DRIVE,)),
    "reviewer": (ActorKind.HUMAN, (Role.READ, Role.RECONCILE)),
    "confirmer": (ActorKind.CONFIRMER, (Role.READ, Role.CONFIRM)),
    "admin": (ActorKind.HUMAN, (Role.ADMIN, Role.READ, Role.AUDIT, Role.EXPORT, Role.CANCEL)),
}
"""The principals of the embedded default, by id. None of them both drives and decides."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a credential stands for. Exactly one of the three credentials is set."""

    tenant: Tenant
    id: PrincipalId
    kind: ActorKind
    roles: frozenset[Role]
    token_hash: bytes = b""
    jwt: tuple[str, str] = ("", "")
    certificate: str = ""

    def caller(self, auth: Auth) -> Caller:
        """The principal as the caller of a request."""
        return Caller(self.tenant, self.id, self.kind, auth, self.roles)


class Principals:
    """The principals of one reading of the file."""

    def __init__(self, principals: Iterable[Principal]) -> None:
        everyone = tuple(principals)
        self._by_token: dict[bytes, list[tuple[bytes, Caller]]] = {}
        for p in everyone:
            if p.token_hash:
                known = (p.token_hash, p.caller(Auth.EMBEDDED))
                self._by_token.setdefault(p.token_hash[:_PREFIX], []).append(known)
        self._by_jwt = {p.jwt: p.caller(Auth.JWT) for p in everyone if p.jwt[0]}
        self._by_certificate = {
            p.certificate: p.caller(Auth.MTLS) for p in everyone if p.certificate
        }

    def of_token(self, token: str) -> Caller | None:
        """Whose token it is. Found by the first bytes of its SHA-256, however many principals there
        are; the whole of it is compared in constant time."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        for token_hash, caller in self._by_token.get(digest[:_PREFIX], ()):
            if hmac.compare_digest(token_hash, digest):
                return caller
        return None

    def of_jwt(self, *, issuer: str, subject: str) -> Caller | None:
        """Who an issuer's subject is here."""
        return self._by_jwt.get((issuer, subject))

    def of_certificate(self, name: str) -> Caller | None:
        """Who a certificate's SPIFFE URI or subject is here."""
        return self._by_certificate.get(name)


class PrincipalsFile:
    """The file, read again when it was replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = (0, 0, 0)
        self._read = Principals(())
        self.current()

    def current(self) -> Principals:
        """The principals as the file has them now.

        Costs one stat. A file that became unreadable or malformed keeps the last good reading, so
        that a half-written edit locks nobody out; raises `Malformed` or OSError only at the first.
        """
        first = self._stamp == (0, 0, 0)
        try:
            stat = self._path.stat()
            stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if stamp != self._stamp:
                self._read = Principals(parse_principals(self._path.read_bytes()))
                self._stamp = stamp
        except (OSError, Malformed):
            if first:
                raise
        return self._read


def parse_principals(octets: bytes) -> list[Principal]:
    """The principals of a file's bytes. Raises `Malformed` with the path of what is wrong."""
    try:
        document = orjson.loads(octets)
    except orjson.JSONDecodeError:
        raise Malformed("$", "is not JSON") from None
    if type(document) is not dict or document.keys() != {"v", "principals"} or document["v"] != 1:
        raise Malformed("$", 'is not {"v": 1, "principals": [...]}')
    rows = document["principals"]
    if type(rows) is not list:
        raise Malformed("$.principals", "is not an array")
    return [_principal(row, f"$.principals[{at}]") for at, row in enumerate(rows)]


def _principal(row: Any, path: str) -> Principal:
    if type(row) is not dict or not row.keys() >= _MEMBERS:
        raise Malformed(path, "needs id, tenant, kind, roles")
    credentials = row.keys() - _MEMBERS
    if len(credentials) != 1 or not credentials <= _CREDENTIALS:
        raise Malformed(path, "needs exactly one of token_sha256, jwt, certificate")
    try:
        kind = ActorKind(row["kind"])
        roles = frozenset(Role(role) for role in row["roles"])
    except (ValueError, TypeError):
        raise Malformed(path, "has a kind or a role that is not known here") from None
    if kind is ActorKind.SYSTEM:
        raise Malformed(f"{path}.kind", "is the ledger's own")
    if not isinstance(row["tenant"], str) or not isinstance(row["id"], str):
        raise Malformed(path, "has an id or a tenant that is no text")
    return Principal(
        client_id(Tenant, row["tenant"], path=f"{path}.tenant"),
        client_id(PrincipalId, row["id"], path=f"{path}.id"),
        kind,
        roles,
        **_credential(row, path),
    )


def _credential(row: dict[str, Any], path: str) -> dict[str, Any]:
    if "token_sha256" in row and isinstance(row["token_sha256"], str):
        digest = hash_bytes(row["token_sha256"], path=f"{path}.token_sha256")
        return {"token_hash": digest}
    if isinstance(row.get("certificate"), str) and row["certificate"]:
        return {"certificate": row["certificate"]}
    match row.get("jwt"):
        case {"issuer": str(issuer), "subject": str(subject)} if issuer and subject:
            return {"jwt": (issuer, subject)}
        case _:
            raise Malformed(path, "has a credential of a wrong form")


def make_embedded(folder: Path, *, tenant: str) -> bool:
    """Makes the embedded default's principals and token files in a data folder, once.

    The folder and every file are for their owner alone. The principals file comes last and whole,
    so that a crash before it leaves nothing that a token opens. Answers whether it was made now.
    """
    path = folder / FILE_NAME
    if path.exists():
        return False
    tokens = folder / TOKENS_FOLDER
    tokens.mkdir(mode=0o700, parents=True, exist_ok=True)
    rows = []
    for name, (kind, roles) in EMBEDDED.items():
        token = secrets.token_urlsafe(TOKEN_BYTES)
        write_secret(tokens / name, token)
        rows.append(
            {
                "id": name,
                "tenant": tenant,
                "kind": kind.value,
                "roles": [role.value for role in roles],
                "token_sha256": hashlib.sha256(token.encode("ascii")).hexdigest(),
            }
        )
    document = orjson.dumps({"v": 1, "principals": rows}, option=orjson.OPT_INDENT_2)
    write_secret(path, document.decode("ascii"))
    return True
