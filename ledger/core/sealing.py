"""Payload commitments, sealed payloads and wrapped data keys (formats section 2, rules section 9).

AES-256-GCM by the `cryptography` package. Salts, nonces and keys are arguments: whoever calls draws
them from the operating system, each nonce once.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ledger.core.ids import DataKeyId, Origin, PayloadId, Tenant

SALT_LENGTH: Final = 32
NONCE_LENGTH: Final = 12
KEY_LENGTH: Final = 32
KEK_ID_LENGTH: Final = 16
SEALED_OVERHEAD: Final = NONCE_LENGTH + SALT_LENGTH + 16
"""How many bytes a sealed payload is longer than the payload."""
WRAPPED_LENGTH: Final = KEK_ID_LENGTH + NONCE_LENGTH + KEY_LENGTH + 16

_COMMITMENT: Final = b"ledger.payload.v1\x00"
_DATA_KEY: Final = b"ledger.datakey.v1\x00"


class SealBroken(ValueError):
    """Sealed bytes that this key does not open at this place: changed, moved, or another key."""


class Unsealed(NamedTuple):
    """What a sealed payload held; with the salt its commitment can be recomputed."""

    salt: bytes
    payload: bytes


def payload_commitment(*, salt: bytes, payload: bytes) -> bytes:
    """SHA-256("ledger.payload.v1" || 0x00 || salt[32] || uint64be(len(payload)) || payload)."""
    _require_length(salt, SALT_LENGTH, "a salt")
    digest = hashlib.sha256(_COMMITMENT)
    digest.update(salt)
    digest.update(len(payload).to_bytes(8, "big"))
    digest.update(payload)
    return digest.digest()


def commits_to(commitment: bytes, *, salt: bytes, payload: bytes) -> bool:
    """Whether the commitment is that of these bytes, compared in constant time."""
    return hmac.compare_digest(commitment, payload_commitment(salt=salt, payload=payload))


def cipher_of(key: bytes) -> AESGCM:
    """What seals under a data key: worth keeping beside it, for it costs as much as sealing."""
    _require_length(key, KEY_LENGTH, "a data key")
    return AESGCM(key)


def seal(
    payload: bytes,
    *,
    key: bytes | AESGCM,
    salt: bytes,
    nonce: bytes,
    origin: Origin,
    payload_id: PayloadId,
    name: str,
) -> bytes:
    """nonce || AES-256-GCM(key, nonce, salt || payload, aad = origin, payload id, name).

    Bound to its place: it opens nowhere else. `nonce` must be fresh for each call with a key, which
    may be given as its `cipher_of`.
    """
    _require_length(salt, SALT_LENGTH, "a salt")
    _require_length(nonce, NONCE_LENGTH, "a nonce")
    cipher = cipher_of(key) if isinstance(key, bytes) else key
    aad = _payload_aad(origin, payload_id, name)
    return nonce + cipher.encrypt(nonce, salt + payload, aad)


def open_sealed(
    sealed: bytes, *, key: bytes, origin: Origin, payload_id: PayloadId, name: str
) -> Unsealed:
    """The salt and payload that `seal` was given for this place. Raises `SealBroken`."""
    _require_length(key, KEY_LENGTH, "a data key")
    if len(sealed) < SEALED_OVERHEAD:
        raise SealBroken("a sealed payload is cut off")
    plain = _decrypt(key, sealed, _payload_aad(origin, payload_id, name))
    return Unsealed(plain[:SALT_LENGTH], plain[SALT_LENGTH:])


def wrap_data_key(
    data_key: bytes,
    *,
    kek_id: bytes,
    kek: bytes,
    nonce: bytes,
    tenant: Tenant,
    data_key_id: DataKeyId,
) -> bytes:
    """kek_id[16] || nonce[12] || AES-256-GCM(KEK, nonce, data key, aad = tenant and key id)."""
    _require_length(data_key, KEY_LENGTH, "a data key")
    _require_length(kek, KEY_LENGTH, "a key-encryption key")
    _require_length(kek_id, KEK_ID_LENGTH, "a key-encryption key's id")
    _require_length(nonce, NONCE_LENGTH, "a nonce")
    aad = _data_key_aad(tenant, data_key_id)
    return kek_id + nonce + AESGCM(kek).encrypt(nonce, data_key, aad)


def kek_id_of(wrapped: bytes) -> bytes:
    """Which key-encryption key opens this wrapped key. Raises `SealBroken` if it is cut off."""
    if len(wrapped) != WRAPPED_LENGTH:
        raise SealBroken("a wrapped key has a wrong length")
    return wrapped[:KEK_ID_LENGTH]


def unwrap_data_key(wrapped: bytes, *, kek: bytes, tenant: Tenant, data_key_id: DataKeyId) -> bytes:
    """The data key that `wrap_data_key` was given for this tenant and id. Raises `SealBroken`."""
    _require_length(kek, KEY_LENGTH, "a key-encryption key")
    kek_id_of(wrapped)
    return _decrypt(kek, wrapped[KEK_ID_LENGTH:], _data_key_aad(tenant, data_key_id))


def _payload_aad(origin: Origin, payload_id: PayloadId, name: str) -> bytes:
    return b"\x00".join((origin.encode(), payload_id.encode(), name.encode()))


def _data_key_aad(tenant: Tenant, data_key_id: DataKeyId) -> bytes:
    return _DATA_KEY + tenant.encode() + b"\x00" + data_key_id.encode()


def _decrypt(key: bytes, sealed: bytes, aad: bytes) -> bytes:
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_LENGTH], sealed[NONCE_LENGTH:], aad)
    except InvalidTag:
        raise SealBroken("sealed bytes do not open with this key at this place") from None


def _require_length(octets: bytes, length: int, what: str) -> None:
    if len(octets) != length:
        raise ValueError(f"{what} is {length} bytes")
