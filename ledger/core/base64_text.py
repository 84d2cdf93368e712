"""Standard Base64 (RFC 4648, section 4), read strictly."""

from __future__ import annotations

import base64
import binascii

from ledger.core.errors import Malformed


def encode_base64(octets: bytes) -> str:
    """With padding, on one line."""
    return base64.b64encode(octets).decode("ascii")


def decode_base64(text: str, *, path: str = "$") -> bytes:
    """The bytes of the one spelling that `encode_base64` gives.

    Missing padding, other alphabets, white space and set bits behind the last byte raise
    `Malformed`: two spellings of one signature would be two different files that both verify.
    """
    try:
        octets = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise Malformed(path, "is not Base64") from None
    if encode_base64(octets) != text:
        raise Malformed(path, "is not the one Base64 spelling of its bytes")
    return octets
