"""Sealed payloads and wrapped keys, held to the written layout by another library's AES-GCM."""

from __future__ import annotations

import hashlib

import pytest
from Crypto.Cipher import AES
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.ids import DataKeyId, Origin, PayloadId, Tenant
from ledger.core.sealing import (
    SEALED_OVERHEAD,
    WRAPPED_LENGTH,
    SealBroken,
    commits_to,
    kek_id_of,
    open_sealed,
    payload_commitment,
    seal,
    unwrap_data_key,
    wrap_data_key,
)

KEY = bytes(range(32))
SALT = bytes(range(100, 132))
NONCE = bytes(range(200, 212))
ORIGIN = Origin("ledger.example/log-1")
PAYLOAD_ID = PayloadId("0123456789abcdef0123456789abcdef")
KEY_ID = DataKeyId("fedcba9876543210fedcba9876543210")
TENANT = Tenant("default")


def _seal(payload: bytes) -> bytes:
    return seal(
        payload,
        key=KEY,
        salt=SALT,
        nonce=NONCE,
        origin=ORIGIN,
        payload_id=PAYLOAD_ID,
        name="arguments",
    )


def _other_gcm(key: bytes, nonce: bytes, aad: bytes, plain: bytes) -> bytes:
    cipher = AES.new(key, AES.MODE_GCM, nonce=nonce)
    cipher.update(aad)
    return b"".join(cipher.encrypt_and_digest(plain))


@given(st.binary(max_size=200))
def test_a_commitment_is_the_digest_that_the_format_prescribes(payload: bytes) -> None:
    octets = b"ledger.payload.v1" + b"\x00" + SALT + len(payload).to_bytes(8, "big") + payload
    commitment = payload_commitment(salt=SALT, payload=payload)
    assert commitment == hashlib.sha256(octets).digest()
    assert commits_to(commitment, salt=SALT, payload=payload)
    assert not commits_to(commitment, salt=SALT, payload=payload + b"\x00")
    assert not commits_to(commitment, salt=SALT[::-1], payload=payload)


@given(st.binary(max_size=200))
def test_a_sealed_payload_has_the_layout_of_the_format(payload: bytes) -> None:
    aad = b"ledger.example/log-1\x000123456789abcdef0123456789abcdef\x00arguments"
    sealed = _seal(payload)
    assert sealed == NONCE + _other_gcm(KEY, NONCE, aad, SALT + payload)
    assert len(sealed) == len(payload) + SEALED_OVERHEAD
    opened = open_sealed(sealed, key=KEY, origin=ORIGIN, payload_id=PAYLOAD_ID, name="arguments")
    assert opened == (SALT, payload)


def test_a_sealed_payload_opens_at_its_own_place_only() -> None:
    sealed = _seal(b"secret")
    place = {"key": KEY, "origin": ORIGIN, "payload_id": PAYLOAD_ID, "name": "arguments"}
    for wrong in (
        {"key": KEY[::-1]},
        {"origin": Origin("ledger.example/log-2")},
        {"payload_id": PayloadId("0" * 32)},
        {"name": "result"},
    ):
        with pytest.raises(SealBroken):
            open_sealed(sealed, **{**place, **wrong})  # type: ignore[arg-type]


def test_every_changed_byte_and_every_cut_of_a_sealed_payload_is_found() -> None:
    sealed = _seal(b"secret")
    damaged = [
        sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
        for place in range(len(sealed))
    ]
    damaged += [sealed[:length] for length in range(len(sealed))]
    for octets in damaged:
        with pytest.raises(SealBroken):
            open_sealed(octets, key=KEY, origin=ORIGIN, payload_id=PAYLOAD_ID, name="arguments")


def test_a_wrapped_key_has_the_layout_of_the_rules() -> None:
    kek_id, kek = bytes(range(16)), KEY[::-1]
    wrapped = wrap_data_key(
        KEY, kek_id=kek_id, kek=kek, nonce=NONCE, tenant=TENANT, data_key_id=KEY_ID
    )
    aad = b"ledger.datakey.v1\x00default\x00fedcba9876543210fedcba9876543210"
    assert wrapped == kek_id + NONCE + _other_gcm(kek, NONCE, aad, KEY)
    assert len(wrapped) == WRAPPED_LENGTH
    assert kek_id_of(wrapped) == kek_id
    assert unwrap_data_key(wrapped, kek=kek, tenant=TENANT, data_key_id=KEY_ID) == KEY
    with pytest.raises(SealBroken):
        unwrap_data_key(wrapped, kek=KEY, tenant=TENANT, data_key_id=KEY_ID)
    with pytest.raises(SealBroken):
        unwrap_data_key(wrapped, kek=kek, tenant=Tenant("other"), data_key_id=KEY_ID)
    with pytest.raises(SealBroken):
        unwrap_data_key(wrapped, kek=kek, tenant=TENANT, data_key_id=DataKeyId("0" * 32))
    with pytest.raises(SealBroken):
        unwrap_data_key(wrapped[:-1], kek=kek, tenant=TENANT, data_key_id=KEY_ID)


@pytest.mark.parametrize(
    "wrong", [{"key": bytes(16)}, {"salt": bytes(16)}, {"nonce": bytes(16)}, {"nonce": b""}]
)
def test_keys_salts_and_nonces_of_other_lengths_are_not_used(wrong: dict[str, bytes]) -> None:
    right = {"key": KEY, "salt": SALT, "nonce": NONCE}
    with pytest.raises(ValueError, match="bytes"):
        seal(b"", origin=ORIGIN, payload_id=PAYLOAD_ID, name="a", **{**right, **wrong})
