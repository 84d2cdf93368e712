"""Public keys that must not be loaded, and RFC 8032's own signatures."""

from __future__ import annotations

import pytest

from ledger.core import ed25519
from ledger.core.errors import Malformed

P = 2**255 - 19

# The y coordinates of the points whose order divides the cofactor 8.
ORDER_8_Y = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
LOW_ORDER_Y = {
    "order 1": 1,
    "order 2": P - 1,
    "order 4": 0,
    "order 8": ORDER_8_Y,
    "order 8, negated": P - ORDER_8_Y,
}


def _octets(y: int, *, sign: int = 0) -> bytes:
    return (y | sign << 255).to_bytes(32, "little")


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("y", LOW_ORDER_Y.values(), ids=LOW_ORDER_Y)
def test_a_point_of_low_order_is_no_key(y: int, sign: int) -> None:
    with pytest.raises(Malformed, match=r"low order|canonical"):
        ed25519.load_public_key(_octets(y, sign=sign))


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("excess", range(19))
def test_a_second_spelling_of_a_point_is_no_key(excess: int, sign: int) -> None:
    with pytest.raises(Malformed, match="canonical"):
        ed25519.load_public_key(_octets(P + excess, sign=sign))


def test_what_is_no_point_is_no_key() -> None:
    refused = 0
    for y in range(2, 60):
        try:
            ed25519.load_public_key(_octets(y))
        except Malformed as fault:
            assert "not a point" in fault.reason
            refused += 1
    assert 15 <= refused <= 45


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(Malformed, match="32 bytes"):
        ed25519.load_public_key(bytes(length))


@pytest.mark.parametrize(
    ("seed", "public_key", "message", "signature"),
    [
        # RFC 8032, section 7.1, tests 1 and 2.
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            (
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
                "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
            ),
        ),
        (
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            (
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
            ),
        ),
    ],
)
def test_the_rfcs_own_signatures_are_made_and_verified(
    seed: str, public_key: str, message: str, signature: str
) -> None:
    private = ed25519.load_seed(bytes.fromhex(seed))
    assert private.public_key().public_bytes_raw().hex() == public_key
    assert private.sign(bytes.fromhex(message)).hex() == signature
    key = ed25519.load_public_key(bytes.fromhex(public_key))
    octets, text = bytes.fromhex(signature), bytes.fromhex(message)
    assert ed25519.verifies(key, message=text, signature=octets)
    assert not ed25519.verifies(key, message=text + b"\x00", signature=octets)
    assert not ed25519.verifies(key, message=text, signature=octets[:-1])
    assert not ed25519.verifies(key, message=text, signature=b"")
