"""A JWT issuer's key file that is replaced, lost and half written under a running server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import jwt
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import run_service_pb2_grpc
from tests.support.calls import TIMEOUT_S, Refusal, new_id, refusal_of_error
from tests.support.server_process import LedgerServer

ISSUER = "https://issuer.example"


def jwks(key: ec.EllipticCurvePrivateKey, kid: str) -> bytes:
    """A key set with one public key."""
    public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return orjson.dumps({"keys": [public | {"kid": kid, "alg": "ES256"}]})


def bearer(key: ec.EllipticCurvePrivateKey, kid: str) -> tuple[str, str]:
    """A token of agent-7, good for a minute."""
    claims = {"iss": ISSUER, "aud": "ledger", "sub": "agent-7", "exp": int(time.time()) + 60}
    return "authorization", f"Bearer {jwt.encode(claims, key, 'ES256', headers={'kid': kid})}"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Where the key file will be; it is not there yet."""
    return tmp_path / "jwks.json"


@pytest.fixture
def server(tmp_path: Path, keys: Path) -> Iterator[LedgerServer]:
    """A server that was started before its issuer's key file was there."""
    folder = tmp_path / "server"
    folder.mkdir()
    row = {"id": "by-jwt", "tenant": "default", "kind": "runtime", "roles": ["drive"]}
    rows = [row | {"jwt": {"issuer": ISSUER, "subject": "agent-7"}}]
    (folder / "principals.json").write_bytes(orjson.dumps({"v": 1, "principals": rows}))
    settings = {
        "LEDGER_JWT_ISSUER": ISSUER,
        "LEDGER_JWT_AUDIENCE": "ledger",
        "LEDGER_JWT_KEYS": str(keys),
    }
    running = LedgerServer(folder, settings=settings)
    try:
        yield running.start()
    finally:
        running.close()


def opened_by(server: LedgerServer, *metadata: tuple[str, str]) -> str | Refusal:
    """Who the server says opened a run, or how it refused."""
    with grpc.insecure_channel(server.address) as channel:
        stub = run_service_pb2_grpc.RunServiceStub(channel)
        request = pb.OpenRunRequest(request_id=new_id(), run=f"run-{new_id()}")
        try:
            answer = stub.OpenRun(request, metadata=metadata, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            return refusal_of_error(error)
        return str(answer.run.opened_by)


def undecided(said: str | Refusal) -> bool:
    """Whether a call was told to come again, with what is safe and what to do."""
    return (
        isinstance(said, Refusal)
        and said.code is grpc.StatusCode.UNAVAILABLE
        and (said.reason, said.durability) == ("KEYS_UNAVAILABLE", "NOT_COMMITTED")
        and "Nothing was done. Send the same call again later" in said.message
    )


def test_a_key_file_in_trouble_locks_nobody_out_and_is_never_a_fault_of_the_server(
    server: LedgerServer, keys: Path
) -> None:
    first, second = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    assert undecided(opened_by(server, bearer(first, "k1")))

    keys.write_bytes(jwks(first, "k1"))
    assert opened_by(server, bearer(first, "k1")) == "by-jwt"
    said = opened_by(server, bearer(second, "k2"))
    assert isinstance(said, Refusal)
    assert (said.code, said.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")

    keys.write_bytes(jwks(second, "k2")[:40])
    assert opened_by(server, bearer(first, "k1")) == "by-jwt"
    assert undecided(opened_by(server, bearer(second, "k2")))

    keys.unlink()
    assert opened_by(server, bearer(first, "k1")) == "by-jwt"
    assert undecided(opened_by(server, bearer(second, "k2")))

    keys.write_bytes(jwks(second, "k2"))
    assert opened_by(server, bearer(second, "k2")) == "by-jwt"
    said = opened_by(server, bearer(first, "k1"))
    assert isinstance(said, Refusal)
    assert said.code is grpc.StatusCode.UNAUTHENTICATED
