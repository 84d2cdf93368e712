"""The digest of a request's content (rules, section 8): what "the same request" means.

    digest  = SHA-256("ledger.request.v1" || 0x00 || lp(method) || fields)
    fields  = for each present field, by field number: uint32be(number) || lp(value)
    lp(x)   = uint32be(length of x) || x
    value   = bytes as they are; text as UTF-8; an integer or flag as decimal ASCII;
              a message as its own fields; a repeated field as uint32be(count) || lp(item) each

Never a serialised protobuf, which may differ between two builds that mean the same.

    >>> fields = [(1, "r"), (2, 0), (3, ["a", ""]), (4, Message([(1, 7)]))]
    >>> octets = encode_fields(fields)
    >>> octets[:9].hex(" ", -4)  # field 1: number, length, text; field 2 is at its default
    '00000001 00000001 72'
    >>> octets[9:30].hex(" ", -4)  # field 3: number, length, count, two items
    '00000003 0000000d 00000002 00000001 61000000 00'
    >>> octets[30:].hex(" ", -4)  # field 4: number, length, and the message's field 1
    '00000004 00000009 00000001 00000001 37'
    >>> request_digest("OpenRun", fields).hex()[:16]
    'b42ef0f662a55072'
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

_DOMAIN: Final = b"ledger.request.v1\x00"
_NUMBER_MAX: Final = 2**29 - 1


@dataclass(frozen=True, slots=True)
class Message:
    """A nested message that is present, even if all its fields are at their default."""

    fields: Sequence[tuple[int, FieldValue]]


@dataclass(frozen=True, slots=True)
class Present:
    """A scalar with explicit presence: counted although it equals its default."""

    value: bytes | str | int


FieldValue: TypeAlias = (
    "bytes | str | int | Present | Message | Sequence[bytes | str | int | Message]"
)


def request_digest(method: str, fields: Sequence[tuple[int, FieldValue]]) -> bytes:
    """The 32 bytes of a request's digest.

    `method` is the command's bare name, the same for unary, batch and stream. `fields` may come in
    any order and may hold fields at their default (0, False, empty text, bytes or list), which are
    left out; a map goes in as a list of messages sorted by key. Raises ValueError for a field
    number given twice or outside 1 to 2**29-1.
    """
    name = method.encode("utf-8")
    return hashlib.sha256(_DOMAIN + _prefixed(name) + encode_fields(fields)).digest()


def encode_fields(fields: Sequence[tuple[int, FieldValue]]) -> bytes:
    """The bytes of a message's present fields, by field number."""
    parts: list[bytes] = []
    last = 0
    for number, value in sorted(fields, key=lambda field: field[0]):
        if not last < number <= _NUMBER_MAX:
            raise ValueError(f"field {number} is given twice, or is no field number")
        last = number
        if isinstance(value, (Message, Present)) or value:
            parts += (number.to_bytes(4, "big"), _prefixed(_value(value)))
    return b"".join(parts)


def _value(value: FieldValue) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, Present):
        return _value(value.value)
    if isinstance(value, Message):
        return encode_fields(value.fields)
    if isinstance(value, Sequence):
        return len(value).to_bytes(4, "big") + b"".join(_prefixed(_value(x)) for x in value)
    assert_never(value)


def _prefixed(octets: bytes) -> bytes:
    return len(octets).to_bytes(4, "big") + octets
