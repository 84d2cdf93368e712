"""Ids, origins, media types, keys and UUIDs: what is let in, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core import ids
from ledger.core.errors import Malformed
from ledger.core.ids import Key, RunId, StepId, Tenant

SECRET = bytes(range(32))


@pytest.mark.parametrize("text", ["a", "A.b_c:d/e@f#g-9", "_log", "x" * 128])
def test_an_id_of_the_pattern_is_let_in(text: str) -> None:
    assert ids.any_id(RunId, text, path="$.run.id") == text


@pytest.mark.parametrize(
    "text", ["", "x" * 129, "a b", "a\n", "\na", "a\x00", "caf\u00e9", "\uff11", "a+b", 'a"', "a\\"]
)
def test_an_id_outside_the_pattern_is_refused(text: str) -> None:
    with pytest.raises(Malformed) as refused:
        ids.any_id(RunId, text, path="$.run.id")
    assert refused.value.path == "$.run.id"
    with pytest.raises(Malformed):
        ids.client_id(RunId, text, path="$.run.id")


def test_a_client_may_not_take_a_reserved_name() -> None:
    for text in ("_log", "_", "_x"):
        with pytest.raises(Malformed, match="reserved"):
            ids.client_id(RunId, text, path="$.run_id")
    assert ids.client_id(RunId, "a_", path="$.run_id") == "a_"


@pytest.mark.parametrize("text", ["a", "ledger.local/abc", "a-b.c/d_e/f.g", "x" * 255, "..", "a/."])
def test_an_origin_of_the_pattern_is_let_in(text: str) -> None:
    assert ids.origin(text) == text


@pytest.mark.parametrize(
    "text", ["", "/a", "a/", "a//b", "A", "a_b", "a b", "a+b", "a\n", "x" * 256, "\u00e9", "a/B"]
)
def test_an_origin_outside_the_pattern_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        ids.origin(text)


@pytest.mark.parametrize(
    "text",
    [
        "application/json",
        "text/plain; charset=utf-8",
        "text/plain;charset=utf-8;format=flowed",
        'multipart/mixed; boundary="a b;c"',
        "application/vnd.ledger.bundle+json;version=1",
    ],
)
def test_a_media_type_is_let_in(text: str) -> None:
    assert ids.media_type(text, path="$") == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "json",
        "a/",
        "/b",
        "a/b/c",
        "a/b;",
        "a/b; c",
        "a/b; c=",
        'a/b; c="d',
        "a/b\n",
        "a/b; c=\u00e9",
        "a /b",
        "a/" + "b" * 127,
    ],
)
def test_what_is_no_media_type_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        ids.media_type(text, path="$")


def test_a_request_id_is_a_uuid_in_lower_case() -> None:
    right = "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0000"
    assert ids.request_id(right) == right
    for wrong in (
        right.upper(),
        right[:-1],
        right + "0",
        right.replace("-", ""),
        "{" + right + "}",
    ):
        with pytest.raises(Malformed):
            ids.request_id(wrong)


@given(st.integers(min_value=0, max_value=2**48 - 1), st.binary(min_size=10, max_size=10))
def test_a_uuid7_carries_its_time_and_its_random_bits(unix_ms: int, random: bytes) -> None:
    made = uuid.UUID(ids.uuid7(unix_ms=unix_ms, random=random))
    assert ids.request_id(str(made)) == str(made)
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == unix_ms
    bits = int.from_bytes(random, "big")
    assert made.int & (1 << 62) - 1 == bits & (1 << 62) - 1
    assert made.int >> 64 & 0xFFF == bits >> 62 & 0xFFF


def test_the_uuid7_of_the_rfc_is_made_from_its_time_and_bits() -> None:
    # RFC 9562, appendix A.6.
    wanted = uuid.UUID("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")
    bits = 0xCC3 << 62 | 0x18C4DC0C0C07398F
    assert ids.uuid7(unix_ms=0x017F22E279B0, random=bits.to_bytes(10, "big")) == str(wanted)


@pytest.mark.parametrize(("unix_ms", "length"), [(-1, 10), (2**48, 10), (0, 9), (0, 11)])
def test_a_uuid7_of_too_much_or_too_little_is_not_made(unix_ms: int, length: int) -> None:
    with pytest.raises(ValueError, match="UUIDv7"):
        ids.uuid7(unix_ms=unix_ms, random=bytes(length))


def test_a_derived_key_is_the_digest_that_the_rules_prescribe() -> None:
    parts = ("default", "run-1", "s\u00e9")
    octets = b"ledger.key.v1\x00" + b"".join(
        len(part.encode()).to_bytes(4, "big") + part.encode() for part in parts
    )
    wanted = base64.urlsafe_b64encode(hashlib.sha256(octets).digest()).decode().rstrip("=")
    key = ids.derived_key(tenant=Tenant(parts[0]), run=RunId(parts[1]), step=StepId(parts[2]))
    assert key == Key("d:" + wanted)
    assert len(key) == 45


def test_derived_keys_of_shifted_ids_differ() -> None:
    one = ids.derived_key(tenant=Tenant("a"), run=RunId("bc"), step=StepId("d"))
    other = ids.derived_key(tenant=Tenant("ab"), run=RunId("c"), step=StepId("d"))
    assert one != other


@pytest.mark.parametrize("key", [b"order-17", b"a" * 128, b"d", b"x", b"A:b/c@d#e"])
def test_a_key_that_is_an_id_stands_as_it_was_given(key: bytes) -> None:
    assert ids.stands_as_given(key)
    assert ids.given_key(key, secret=SECRET) == key.decode()


@pytest.mark.parametrize(
    "key",
    [
        b"_a",
        b"d:a",
        b"x:a",
        b"a" * 129,
        b"jane@example.com?",
        b"a b",
        b"\xff\x00",
        "\u00e9".encode(),
    ],
)
def test_any_other_key_stands_as_a_keyed_digest(key: bytes) -> None:
    digest = hmac.new(SECRET, key, hashlib.sha256).digest()
    wanted = "x:" + base64.urlsafe_b64encode(digest).decode().rstrip("=")
    assert not ids.stands_as_given(key)
    assert ids.given_key(key, secret=SECRET) == wanted
    assert ids.any_id(Key, wanted, path="$.key") == wanted


@given(st.binary(min_size=1, max_size=255), st.binary(min_size=1, max_size=255))
def test_given_keys_are_equal_exactly_when_their_bytes_are(one: bytes, other: bytes) -> None:
    same = ids.given_key(one, secret=SECRET) == ids.given_key(other, secret=SECRET)
    assert same == (one == other)


@pytest.mark.parametrize("length", [0, 256])
def test_a_key_is_1_to_255_bytes(length: int) -> None:
    with pytest.raises(Malformed, match="255"):
        ids.given_key(b"a" * length, secret=SECRET)
