"""Ed25519 (RFC 8032) with the checks on keys that the RFC leaves to the caller.

Signing and verifying are done by the `cryptography` package. A key that is not a point, has more
than one spelling, or lies in the small subgroup is refused when it is loaded: under such a key a
signature says nothing about who made it.
"""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ledger.core.errors import Malformed

KEY_LENGTH: Final = 32
SEED_LENGTH: Final = 32
SIGNATURE_LENGTH: Final = 64

_P: Final = 2**255 - 19
_D: Final = -121665 * pow(121666, -1, _P) % _P
_SQRT_MINUS_ONE: Final = pow(2, (_P - 1) // 4, _P)


def load_public_key(octets: bytes, *, path: str = "$") -> Ed25519PublicKey:
    """A public key of 32 bytes. Raises `Malformed` for all but canonical points of high order."""
    if len(octets) != KEY_LENGTH:
        raise Malformed(path, "is not 32 bytes long")
    y = int.from_bytes(octets, "little") & (1 << 255) - 1
    sign = octets[31] >> 7
    if y >= _P:
        raise Malformed(path, "is not the canonical spelling of a point")
    x = _recover_x(y)
    if x is None:
        raise Malformed(path, "is not a point of the curve")
    if x == 0 and sign:
        raise Malformed(path, "is not the canonical spelling of a point")
    if _has_low_order(x, y):
        raise Malformed(path, "is a point of low order")
    return Ed25519PublicKey.from_public_bytes(octets)


def verifies(key: Ed25519PublicKey, *, message: bytes, signature: bytes) -> bool:
    """Whether this is the key's signature over the message (RFC 8032, section 5.1.7)."""
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True


def load_seed(seed: bytes) -> Ed25519PrivateKey:
    """The private key of a 32-byte seed (RFC 8032, section 5.1.5). Raises ValueError otherwise."""
    return Ed25519PrivateKey.from_private_bytes(seed)


def _recover_x(y: int) -> int | None:
    """An x with this y on the curve (RFC 8032, section 5.1.3), or None; the sign is left open."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if x * x % _P == square:
        return x
    x = x * _SQRT_MINUS_ONE % _P
    return x if x * x % _P == square else None


def _has_low_order(x: int, y: int) -> bool:
    """Whether three doublings lead to the neutral point (0, 1): the cofactor is 8."""
    for _ in range(3):
        product = _D * x * x * y * y % _P
        x, y = (
            2 * x * y * pow(1 + product, -1, _P) % _P,
            (y * y + x * x) * pow(1 - product, -1, _P) % _P,
        )
    return (x, y) == (0, 1)
