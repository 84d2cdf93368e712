"""Who calls: bearer tokens, JWTs and client certificates."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from ledger.core.commands import Caller
from ledger.principals import PrincipalsFile
from ledger.service.identity import Identity, NotAuthenticated, NotDecidable
from ledger.service.jwt_tokens import JwtTokens

ISSUER, AUDIENCE = "https://issuer.example", "ledger"
SPIFFE = "spiffe://example/agent"
Bearer = Callable[[str], Caller]


def row(name: str, **credential: Any) -> dict[str, Any]:
    """A principal's row."""
    return {"id": name, "tenant": "default", "kind": "runtime", "roles": ["drive"]} | credential


@pytest.fixture
def signing_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture
def identity(tmp_path: Path, signing_key: ec.EllipticCurvePrivateKey) -> Identity:
    """Knows one principal by each kind of credential."""
    rows = [
        row("by-token", token_sha256=hashlib.sha256(b"secret").hexdigest()),
        row("by-jwt", jwt={"issuer": ISSUER, "subject": "agent-7"}),
        row("by-spiffe", certificate=SPIFFE),
        row("by-subject", certificate="CN=agent,O=Example"),
    ]
    principals = tmp_path / "principals.json"
    principals.write_bytes(orjson.dumps({"v": 1, "principals": rows}))
    keys = tmp_path / "jwks.json"
    keys.write_bytes(jwks(signing_key, "key-1"))
    tokens = JwtTokens(issuer=ISSUER, audience=AUDIENCE, keys=keys)
    return Identity(PrincipalsFile(principals), tokens)


def jwks(key: ec.EllipticCurvePrivateKey, kid: str) -> bytes:
    """A key set with one public key."""
    public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return orjson.dumps({"keys": [public | {"kid": kid, "alg": "ES256", "use": "sig"}]})


def token(key: Any, *, algorithm: str = "ES256", kid: str = "key-1", **claims: Any) -> str:
    """A JWT that is right but for what is given; None removes a claim."""
    whole = {"iss": ISSUER, "aud": AUDIENCE, "sub": "agent-7", "exp": int(time.time()) + 60}
    kept = {name: value for name, value in (whole | claims).items() if value is not None}
    return jwt.encode(kept, key, algorithm=algorithm, headers={"kid": kid})


def caller_of(identity: Identity, authorization: str) -> Caller:
    """Who an authorization stands for."""
    return identity.caller([("authorization", authorization)], dict)


def why_not(identity: Identity, authorization: str) -> str:
    """Why an authorization stands for nobody."""
    with pytest.raises(NotAuthenticated) as caught:
        caller_of(identity, authorization)
    return str(caught.value)


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER "])
def test_a_known_token_is_its_principal(identity: Identity, scheme: str) -> None:
    assert caller_of(identity, f"{scheme}secret").principal == "by-token"


@pytest.mark.parametrize(
    "authorization", ["", "secret", "Basic secret", "Bearer", "Bearer ", "Bearer wrong", "Bearer ü"]
)
def test_any_other_authorization_is_nobody(identity: Identity, authorization: str) -> None:
    said = why_not(identity, authorization)
    assert "secret" not in said
    assert "wrong" not in said


def test_no_credential_at_all_is_nobody(identity: Identity) -> None:
    with pytest.raises(NotAuthenticated, match="no credential"):
        identity.caller([("user-agent", "x")], dict)


def test_two_authorizations_are_refused(identity: Identity) -> None:
    twice = [("authorization", "Bearer secret"), ("authorization", "Bearer secret")]
    with pytest.raises(NotAuthenticated, match="more than one"):
        identity.caller(twice, dict)


def test_a_right_jwt_is_its_principal(
    identity: Identity, signing_key: ec.EllipticCurvePrivateKey
) -> None:
    bearer = f"Bearer {token(signing_key)}"
    assert caller_of(identity, bearer).principal == "by-jwt"
    assert caller_of(identity, bearer).principal == "by-jwt"  # remembered


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": None}, "does not verify"),
        ({"iss": "https://other"}, "does not verify"),
        ({"aud": "another"}, "does not verify"),
        ({"aud": None}, "does not verify"),
        ({"sub": None}, "does not verify"),
        ({"sub": "agent-8"}, "no principal"),
        ({"nbf": 4_000_000_000}, "does not verify"),
    ],
)
def test_a_jwt_with_a_wrong_claim_is_nobody(
    identity: Identity,
    signing_key: ec.EllipticCurvePrivateKey,
    claims: dict[str, Any],
    said: str,
) -> None:
    assert said in why_not(identity, f"Bearer {token(signing_key, **claims)}")


def test_a_jwt_of_another_key_or_none_is_nobody(
    identity: Identity, signing_key: ec.EllipticCurvePrivateKey
) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    assert "does not verify" in why_not(identity, f"Bearer {token(other)}")
    assert "not in the issuer's key file" in why_not(
        identity, f"Bearer {token(signing_key, kid='key-2')}"
    )
    assert why_not(identity, f"Bearer {token(None, algorithm='none')}")


def test_a_jwt_signed_with_the_public_key_as_a_shared_secret_is_nobody(
    identity: Identity, signing_key: ec.EllipticCurvePrivateKey
) -> None:
    right = token(signing_key)
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"key-1"}').rstrip(b"=")
    signed = head + b"." + right.split(".")[1].encode()
    public = signing_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    mac = base64.urlsafe_b64encode(hmac.digest(public, signed, "sha256")).rstrip(b"=")
    assert "does not verify" in why_not(identity, f"Bearer {(signed + b'.' + mac).decode()}")


def certificate(*, spiffe: str = "") -> bytes:
    """A client certificate in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example"),
            x509.NameAttribute(NameOID.COMMON_NAME, "agent"),
        ]
    )
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(hours=1))
    )
    if spiffe:
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(spiffe)])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


def test_a_certificate_is_its_spiffe_uri_first_then_its_subject(identity: Identity) -> None:
    pem = certificate(spiffe=SPIFFE)
    shown = {"x509_subject_alternative_name": [SPIFFE.encode()], "x509_pem_cert": [pem]}
    assert identity.caller([], lambda: shown).principal == "by-spiffe"
    assert identity.caller([], lambda: {"x509_pem_cert": [pem]}).principal == "by-subject"


def test_an_unknown_certificate_is_nobody_and_a_dns_name_is_no_name(identity: Identity) -> None:
    shown = {"x509_subject_alternative_name": [b"example.org", b"spiffe://example/other"]}
    with pytest.raises(NotAuthenticated, match="certificate"):
        identity.caller([], lambda: shown)


def test_a_wrong_token_is_refused_although_the_certificate_would_do(identity: Identity) -> None:
    shown = {"x509_subject_alternative_name": [SPIFFE.encode()]}
    with pytest.raises(NotAuthenticated):
        identity.caller([("authorization", "Bearer wrong")], lambda: shown)


Spoiled = Callable[[Path], object]


def _half_written(path: Path) -> None:
    octets = path.read_bytes()
    path.write_bytes(octets[: len(octets) // 2])


def _a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.fixture(
    params=[
        pytest.param(Path.unlink, id="missing"),
        pytest.param(_half_written, id="half written"),
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
        pytest.param(lambda path: path.write_bytes(b"\xff\xfe"), id="not UTF-8"),
        pytest.param(lambda path: path.write_bytes(b"[" * 100_000), id="nested too deep"),
        pytest.param(lambda path: path.write_bytes(b'["keys"]'), id="no object"),
        pytest.param(lambda path: path.write_bytes(b'{"keys":{"a":1}}'), id="keys no array"),
        pytest.param(lambda path: path.write_bytes(b'{"keys":[{"kty":"?"}]}'), id="no usable key"),
        pytest.param(_a_folder, id="a folder"),
    ]
)
def spoiled(request: pytest.FixtureRequest) -> Spoiled:
    """What can befall the issuer's key file while it is being replaced."""
    made: Spoiled = request.param
    return made


def test_a_spoiled_key_file_fails_no_token_of_the_keys_read_before(
    identity: Identity, signing_key: ec.EllipticCurvePrivateKey, tmp_path: Path, spoiled: Spoiled
) -> None:
    known = f"Bearer {token(signing_key)}"
    assert caller_of(identity, known).principal == "by-jwt"
    spoiled(tmp_path / "jwks.json")
    assert caller_of(identity, known).principal == "by-jwt"
    never_seen = f"Bearer {token(signing_key, jti='another')}"
    assert caller_of(identity, never_seen).principal == "by-jwt"
    assert "expired" in why_not(identity, f"Bearer {token(signing_key, exp=1)}")


def test_a_token_of_a_key_that_a_spoiled_file_may_hold_is_not_judged(
    identity: Identity, signing_key: ec.EllipticCurvePrivateKey, tmp_path: Path, spoiled: Spoiled
) -> None:
    newer = ec.generate_private_key(ec.SECP256R1())
    of_newer = f"Bearer {token(newer, kid='key-2')}"
    path = tmp_path / "jwks.json"
    spoiled(path)
    with pytest.raises(NotDecidable, match="cannot be read now"):
        caller_of(identity, of_newer)
    if path.is_dir():
        path.rmdir()
    path.write_bytes(jwks(newer, "key-2"))
    assert caller_of(identity, of_newer).principal == "by-jwt"
    assert "not in the issuer's key file" in why_not(identity, f"Bearer {token(signing_key)}")


def test_keys_that_never_could_be_read_leave_every_jwt_undecided_until_they_can(
    identity: Identity, signing_key: ec.EllipticCurvePrivateKey, tmp_path: Path, spoiled: Spoiled
) -> None:
    path = tmp_path / "jwks.json"
    spoiled(path)
    tokens = JwtTokens(issuer=ISSUER, audience=AUDIENCE, keys=path)
    late = Identity(PrincipalsFile(tmp_path / "principals.json"), tokens)
    with pytest.raises(NotDecidable):
        caller_of(late, f"Bearer {token(signing_key)}")
    assert caller_of(late, "Bearer secret").principal == "by-token"
    if path.is_dir():
        path.rmdir()
    path.write_bytes(jwks(signing_key, "key-1"))
    assert caller_of(late, f"Bearer {token(signing_key)}").principal == "by-jwt"


def test_an_empty_key_set_takes_every_key_away(
    identity: Identity, signing_key: ec.EllipticCurvePrivateKey, tmp_path: Path
) -> None:
    bearer = f"Bearer {token(signing_key)}"
    assert caller_of(identity, bearer).principal == "by-jwt"
    (tmp_path / "jwks.json").write_bytes(b'{"keys": []}')
    assert "not in the issuer's key file" in why_not(identity, bearer)


@pytest.mark.parametrize("exp", [float("inf"), 10**400, "9" * 5_000, [[1]], {"a": 1}])
def test_a_jwt_whose_time_is_no_time_is_nobody(
    identity: Identity, signing_key: ec.EllipticCurvePrivateKey, exp: object
) -> None:
    assert why_not(identity, f"Bearer {token(signing_key, exp=exp)}")


def test_a_hostile_jwt_head_is_nobody(identity: Identity) -> None:
    for head in (b"[" * 5_000, b'{"alg":"ES256","kid":' + b"[" * 5_000 + b"]" * 5_000 + b"}"):
        told = base64.urlsafe_b64encode(head).rstrip(b"=").decode()
        assert why_not(identity, f"Bearer {told}.e30.e30")


def test_a_certificate_that_cannot_be_parsed_is_nobody(identity: Identity) -> None:
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    with pytest.raises(NotAuthenticated, match="no credential"):
        identity.caller([], lambda: {"x509_pem_cert": [broken]})
