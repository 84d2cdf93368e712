"""TLS, client certificates and JWTs against a real server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import grpc
import jwt
import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import run_service_pb2_grpc
from tests.support.calls import TIMEOUT_S, new_id, refusal_of_error
from tests.support.server_process import LedgerServer

SPIFFE = "spiffe://example/agent"


class Authority:
    """A certificate authority of one test."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        built = self._builder(self.name, self.key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate = built.sign(self.key, SHA256())

    def _builder(self, name: x509.Name, key: Any) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=1))
            .not_valid_after(now + timedelta(hours=1))
        )

    def issue(self, subject: str, *names: x509.GeneralName) -> tuple[bytes, bytes]:
        """(certificate, key) in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
        built = self._builder(name, key).add_extension(
            x509.SubjectAlternativeName(list(names)), critical=False
        )
        certificate = built.sign(self.key, SHA256()).public_bytes(Encoding.PEM)
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return certificate, secret

    def pem(self) -> bytes:
        """Its own certificate."""
        return self.certificate.public_bytes(Encoding.PEM)


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def signing_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture
def tls_server(
    authority: Authority, signing_key: ec.EllipticCurvePrivateKey, tmp_path: Path
) -> Iterator[LedgerServer]:
    """A server with TLS that asks for client certificates, and takes JWTs."""
    certificate, secret = authority.issue("server", x509.IPAddress(ip_address("127.0.0.1")))
    public = jwt.algorithms.ECAlgorithm.to_jwk(signing_key.public_key(), as_dict=True)
    files = {
        "server.pem": certificate,
        "server.key": secret,
        "ca.pem": authority.pem(),
        "jwks.json": orjson.dumps({"keys": [public | {"kid": "k", "alg": "ES256"}]}),
    }
    for name, octets in files.items():
        (tmp_path / name).write_bytes(octets)
    folder = tmp_path / "server"
    folder.mkdir()
    row = {"tenant": "default", "kind": "runtime", "roles": ["drive"]}
    rows = [
        row | {"id": "by-spiffe", "certificate": SPIFFE},
        row | {"id": "by-jwt", "jwt": {"issuer": "https://issuer.example", "subject": "agent-7"}},
    ]
    (folder / "principals.json").write_bytes(orjson.dumps({"v": 1, "principals": rows}))
    server = LedgerServer(
        folder,
        settings={
            "LEDGER_TLS_CERTIFICATE": str(tmp_path / "server.pem"),
            "LEDGER_TLS_PRIVATE_KEY": str(tmp_path / "server.key"),
            "LEDGER_TLS_CLIENT_CA": str(tmp_path / "ca.pem"),
            "LEDGER_JWT_ISSUER": "https://issuer.example",
            "LEDGER_JWT_AUDIENCE": "ledger",
            "LEDGER_JWT_KEYS": str(tmp_path / "jwks.json"),
        },
    )
    try:
        yield server.start()
    finally:
        server.close()


def opened_by(
    server: LedgerServer,
    authority: Authority,
    pair: tuple[bytes, bytes] | None,
    *metadata: tuple[str, str],
) -> str:
    """Who the server says opened a run through a channel with this certificate and metadata."""
    certificate, secret = pair or (None, None)
    credentials = grpc.ssl_channel_credentials(authority.pem(), secret, certificate)
    with grpc.secure_channel(server.address, credentials) as channel:
        stub = run_service_pb2_grpc.RunServiceStub(channel)
        request = pb.OpenRunRequest(request_id=new_id(), run=f"run-{new_id()}")
        answer = stub.OpenRun(request, metadata=metadata, timeout=TIMEOUT_S)
        return str(answer.run.opened_by)


def test_a_client_certificate_is_its_principal(
    tls_server: LedgerServer, authority: Authority
) -> None:
    pair = authority.issue("agent", x509.UniformResourceIdentifier(SPIFFE))
    assert opened_by(tls_server, authority, pair) == "by-spiffe"


def test_a_jwt_over_the_same_door_is_its_own_principal(
    tls_server: LedgerServer, authority: Authority, signing_key: ec.EllipticCurvePrivateKey
) -> None:
    pair = authority.issue("agent", x509.UniformResourceIdentifier(SPIFFE))
    claims = {
        "iss": "https://issuer.example",
        "aud": "ledger",
        "sub": "agent-7",
        "exp": int(time.time()) + 60,
    }
    token = jwt.encode(claims, signing_key, algorithm="ES256", headers={"kid": "k"})
    bearer = ("authorization", f"Bearer {token}")
    assert opened_by(tls_server, authority, pair, bearer) == "by-jwt"


def test_a_certificate_of_a_stranger_is_nobody(
    tls_server: LedgerServer, authority: Authority
) -> None:
    pair = authority.issue("agent", x509.UniformResourceIdentifier("spiffe://example/other"))
    with pytest.raises(grpc.RpcError) as caught:
        opened_by(tls_server, authority, pair)
    assert refusal_of_error(caught.value).code is grpc.StatusCode.UNAUTHENTICATED


def test_no_certificate_or_one_of_another_authority_gets_no_connection(
    tls_server: LedgerServer, authority: Authority
) -> None:
    stranger = Authority().issue("agent", x509.UniformResourceIdentifier(SPIFFE))
    for pair in (None, stranger):
        with pytest.raises(grpc.RpcError) as caught:
            opened_by(tls_server, authority, pair)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
