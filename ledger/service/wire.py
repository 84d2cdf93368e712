"""Where in a message's bytes the fault is: read only after the parser has refused them.

Protobuf's own parser says neither which string is not UTF-8 nor which field is unknown; a client
that is told the path can mend the request. The walk knows the wire format's four living types
(protobuf.dev, "Encoding") and gives up after `VISITS_MAX` fields, so that a hostile message costs
milliseconds, not seconds.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from ledger.core.errors import Malformed

VISITS_MAX: Final = 50_000

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_WIDTH: Final = {_FIXED64: 8, _FIXED32: 4}
_LENGTH_KINDS: Final = frozenset(
    {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE}
)
_VARINT_LENGTH_MAX: Final = 10
_UNKNOWN: Final = "is not a field known here; a newer client is talking to an older server"


class _Visits:
    def __init__(self) -> None:
        self.left = VISITS_MAX

    def count(self, path: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise Malformed(path or "message", "is malformed somewhere past its first fields")


def first_fault(octets: bytes, kind: type[Message]) -> Malformed | None:
    """The first field that is unknown, cut off, of another wire type, or not UTF-8; else None."""
    try:
        _walk(memoryview(octets), kind.DESCRIPTOR, "", _Visits())
    except Malformed as fault:
        return fault
    return None


def largest_field(octets: bytes, kind: type[Message]) -> str:
    """The path of the field that takes the most room, followed down while it is most of its parent.

    For octets that were parsed before; where they cannot be walked, `message`.
    """
    path = ""
    here: Any = kind.DESCRIPTOR
    view, visits = memoryview(octets), _Visits()
    try:
        while True:
            fields = _fields(view, here, path, visits)
            name, field, inner = max(fields, key=lambda found: len(found[2]))
            if path and len(inner) * 2 < len(view):
                break
            path, view = name, inner
            if field.message_type is None or field.message_type.GetOptions().map_entry:
                break
            here = field.message_type
    except (Malformed, ValueError):
        return path or "message"
    return path


def _walk(view: memoryview, kind: Any, path: str, visits: _Visits) -> None:
    for name, field, inner in _fields(view, kind, path, visits):
        if field.type == FieldDescriptor.TYPE_STRING:
            _require_utf8(inner, name)
        elif field.message_type is not None:
            _walk(inner, field.message_type, name, visits)


def _fields(
    view: memoryview, kind: Any, path: str, visits: _Visits
) -> list[tuple[str, FieldDescriptor, memoryview]]:
    """Each field's path, descriptor and bytes (its value alone), in wire order."""
    found: list[tuple[str, FieldDescriptor, memoryview]] = []
    counts: dict[int, int] = {}
    at = 0
    while at < len(view):
        visits.count(path)
        tag, at = _varint(view, at, path)
        number, wire_type = tag >> 3, tag & 7
        field = kind.fields_by_number.get(number)
        if field is None:
            raise Malformed(_join(path, f"#{number}"), _UNKNOWN)
        name = _name(field, path, counts)
        if wire_type != _wire_type(field):
            raise Malformed(name, "has another type than the field that is known here")
        if wire_type == _LENGTH:
            length, at = _varint(view, at, name)
            end = at + length
        elif wire_type == _VARINT:
            _, end = _varint(view, at, name)
        else:
            end = at + _FIXED_WIDTH[wire_type]
        if end > len(view):
            raise Malformed(name, "is cut off")
        found.append((name, field, view[at:end]))
        at = end
    return found


def _name(field: FieldDescriptor, path: str, counts: dict[int, int]) -> str:
    if not field.is_repeated or (
        field.message_type is not None and field.message_type.GetOptions().map_entry
    ):
        return _join(path, field.name)
    ordinal = counts.get(field.number, 0)
    counts[field.number] = ordinal + 1
    return f"{_join(path, field.name)}[{ordinal}]"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _wire_type(field: FieldDescriptor) -> int:
    # The contract has no packed and no fixed-width fields, and its only repeated ones are strings,
    # bytes and messages; a test over the descriptors holds this.
    return _LENGTH if field.type in _LENGTH_KINDS else _VARINT


def _varint(view: memoryview, at: int, path: str) -> tuple[int, int]:
    value = 0
    for shift in range(_VARINT_LENGTH_MAX):
        if at >= len(view):
            raise Malformed(path or "message", "is cut off")
        octet = view[at]
        at += 1
        value |= (octet & 0x7F) << (7 * shift)
        if octet < 0x80:
            return value, at
    raise Malformed(path or "message", "holds a number that does not end")


def _require_utf8(octets: memoryview, path: str) -> None:
    try:
        str(octets, "utf-8")
    except UnicodeDecodeError:
        raise Malformed(path, "is not UTF-8 (lone surrogates have no place in it)") from None
