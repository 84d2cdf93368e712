"""The principals file: who a credential stands for."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import orjson
import pytest

from ledger.core.errors import Malformed
from ledger.core.vocabulary import ActorKind, Auth, Role
from ledger.principals import EMBEDDED, PrincipalsFile, make_embedded, parse_principals

HASH = hashlib.sha256(b"secret").hexdigest()
ROW: dict[str, Any] = {
    "id": "runtime",
    "tenant": "default",
    "kind": "runtime",
    "roles": ["drive"],
    "token_sha256": HASH,
}


def document(*rows: dict[str, Any]) -> bytes:
    """A principals file's bytes."""
    return orjson.dumps({"v": 1, "principals": rows})


def without(name: str) -> dict[str, Any]:
    """A row that lacks a member."""
    return {key: value for key, value in ROW.items() if key != name}


def test_the_embedded_default_makes_four_principals_with_a_token_file_each(tmp_path: Path) -> None:
    assert make_embedded(tmp_path, tenant="default")
    principals = PrincipalsFile(tmp_path / "principals.json").current()
    for name, (kind, roles) in EMBEDDED.items():
        token = (tmp_path / "tokens" / name).read_text().strip()
        caller = principals.of_token(token)
        assert caller is not None
        assert (caller.principal, caller.kind, caller.roles) == (name, kind, frozenset(roles))
        assert (caller.tenant, caller.auth) == ("default", Auth.EMBEDDED)
        assert len(token) >= 43


def test_nobody_but_the_owner_may_read_what_was_made(tmp_path: Path) -> None:
    make_embedded(tmp_path, tenant="default")
    for path in (tmp_path / "principals.json", *(tmp_path / "tokens").iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE((tmp_path / "tokens").stat().st_mode) == 0o700


def test_the_file_holds_no_token(tmp_path: Path) -> None:
    make_embedded(tmp_path, tenant="default")
    held = (tmp_path / "principals.json").read_text()
    for path in (tmp_path / "tokens").iterdir():
        assert path.read_text().strip() not in held


def test_it_is_made_once(tmp_path: Path) -> None:
    make_embedded(tmp_path, tenant="default")
    before = (tmp_path / "tokens" / "runtime").read_bytes()
    assert not make_embedded(tmp_path, tenant="default")
    assert (tmp_path / "tokens" / "runtime").read_bytes() == before


def test_nobody_of_the_embedded_default_both_drives_and_decides() -> None:
    for _, roles in EMBEDDED.values():
        assert not (Role.DRIVE in roles and {Role.RECONCILE, Role.CONFIRM} & set(roles))


def test_a_principal_may_be_a_token_a_jwt_or_a_certificate(tmp_path: Path) -> None:
    jwt = without("token_sha256") | {"id": "j", "jwt": {"issuer": "https://i", "subject": "s"}}
    spiffe = without("token_sha256") | {"id": "c", "certificate": "spiffe://example/agent"}
    path = tmp_path / "principals.json"
    path.write_bytes(document(ROW, jwt, spiffe))
    principals = PrincipalsFile(path).current()
    by_token = principals.of_token("secret")
    by_jwt = principals.of_jwt(issuer="https://i", subject="s")
    by_certificate = principals.of_certificate("spiffe://example/agent")
    assert by_token is not None
    assert by_jwt is not None
    assert by_certificate is not None
    assert (by_token.auth, by_jwt.auth, by_certificate.auth) == (Auth.EMBEDDED, Auth.JWT, Auth.MTLS)
    assert principals.of_jwt(issuer="https://other", subject="s") is None
    assert principals.of_token("") is None
    assert principals.of_certificate("") is None


@pytest.mark.parametrize(
    ("octets", "path"),
    [
        (b"{", "$"),
        (b"[]", "$"),
        (orjson.dumps({"v": 2, "principals": []}), "$"),
        (orjson.dumps({"v": 1, "principals": {}}), "$.principals"),
        (document(ROW, without("roles")), "$.principals[1]"),
        (document(without("token_sha256")), "$.principals[0]"),
        (document(ROW | {"certificate": "spiffe://x"}), "$.principals[0]"),
        (document(ROW | {"roles": ["root"]}), "$.principals[0]"),
        (document(ROW | {"roles": "drive"}), "$.principals[0]"),
        (document(ROW | {"kind": "system"}), "$.principals[0].kind"),
        (document(ROW | {"kind": "robot"}), "$.principals[0]"),
        (document(ROW | {"id": "_ledger"}), "$.principals[0].id"),
        (document(ROW | {"id": "a b"}), "$.principals[0].id"),
        (document(ROW | {"id": 7}), "$.principals[0]"),
        (document(ROW | {"token_sha256": "SECRET"}), "$.principals[0].token_sha256"),
        (document(ROW | {"token_sha256": 7}), "$.principals[0]"),
        (document(without("token_sha256") | {"jwt": {"issuer": "i"}}), "$.principals[0]"),
        (document(ROW | {"note": "x"}), "$.principals[0]"),
    ],
)
def test_a_malformed_file_is_refused_by_its_path(octets: bytes, path: str) -> None:
    with pytest.raises(Malformed) as caught:
        parse_principals(octets)
    assert caught.value.path == path
    assert "SECRET" not in str(caught.value)


def test_a_replaced_file_is_read_again_and_a_broken_one_locks_nobody_out(tmp_path: Path) -> None:
    path = tmp_path / "principals.json"
    path.write_bytes(document(ROW))
    file = PrincipalsFile(path)
    other = ROW | {"id": "other", "token_sha256": hashlib.sha256(b"another").hexdigest()}
    path.write_bytes(document(ROW, other))
    os.utime(path, ns=(1, 1))
    assert file.current().of_token("another") is not None
    path.write_bytes(b"{")
    os.utime(path, ns=(2, 2))
    assert file.current().of_token("another") is not None
    path.write_bytes(document(other))
    os.utime(path, ns=(3, 3))
    assert file.current().of_token("secret") is None


def test_a_first_reading_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="principals"):
        PrincipalsFile(tmp_path / "principals.json")
    (tmp_path / "principals.json").write_bytes(b"{")
    with pytest.raises(Malformed):
        PrincipalsFile(tmp_path / "principals.json")


def test_the_actors_of_the_ledger_itself_are_no_principals() -> None:
    assert ActorKind.SYSTEM not in {kind for kind, _ in EMBEDDED.values()}
