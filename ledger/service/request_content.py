"""`request.digest` of a protobuf request (rules, section 8), by one walk planned per message type.

The bytes are those of `ledger.core.request_digest`, which states the format; here they are written
straight from the message, because every command pays for it. Fields annotated `undigested` in the
contract are left out; a test holds their list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from ledger.core.errors import InvariantViolation
from ledger.v1 import annotations_pb2

_DOMAIN: Final = b"ledger.request.v1\x00"
_INTEGERS: Final = frozenset(
    {
        FieldDescriptor.CPPTYPE_INT32,
        FieldDescriptor.CPPTYPE_INT64,
        FieldDescriptor.CPPTYPE_UINT32,
        FieldDescriptor.CPPTYPE_UINT64,
        FieldDescriptor.CPPTYPE_BOOL,
        FieldDescriptor.CPPTYPE_ENUM,
    }
)

Write = Callable[[Any], bytes]


Get = Callable[[Any], Any]
_Field = tuple[bytes, Get, Write]
"""A digested field: its number's bytes, how to fetch it (falsy if absent) and how to write it."""


def content_digest(method: str, message: Message) -> bytes:
    """The 32 bytes for a message of the contract; `method` is the command's bare name."""
    opened = _opened(method) + _fields_bytes(_plan(message.DESCRIPTOR), message)
    return hashlib.sha256(opened).digest()


def left_out(kind: Any, *, path: str = "") -> Iterable[str]:
    """The paths of a request's fields that do not count as content."""
    for field in kind.fields:
        name = f"{path}.{field.name}" if path else field.name
        if _is_left_out(field):
            yield name
        elif field.message_type is not None:
            yield from left_out(field.message_type, path=name)


def _is_left_out(field: FieldDescriptor) -> bool:
    return bool(field.GetOptions().Extensions[annotations_pb2.undigested])


@cache
def _opened(method: str) -> bytes:
    return _DOMAIN + _prefixed(method.encode("utf-8"))


def _fields_bytes(plan: tuple[_Field, ...], message: Message) -> bytes:
    parts: list[bytes] = []
    for number, get, write in plan:
        value = get(message)
        if value:
            octets = write(value)
            parts += (number, len(octets).to_bytes(4, "big"), octets)
    return b"".join(parts)


@cache
def _plan(kind: Descriptor) -> tuple[_Field, ...]:
    ordered = sorted(kind.fields, key=lambda field: field.number)
    return tuple(_planned(field) for field in ordered if not _is_left_out(field))


def _planned(field: FieldDescriptor) -> _Field:
    number, name = field.number.to_bytes(4, "big"), field.name
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return number, attrgetter(name), _map_writer(entry)
    write = _item_writer(field)
    if field.is_repeated:
        return number, attrgetter(name), _list_writer(write)
    if entry is not None:
        # A message that is present counts although all its fields are at their default; the object
        # is true then, and None stands for an absent one.
        get = attrgetter(name)
        return number, lambda held: get(held) if held.HasField(name) else None, write
    if field.has_presence:
        raise InvariantViolation(f"{field.full_name}: commands have no optional scalar")
    return number, attrgetter(name), write


def _item_writer(field: FieldDescriptor) -> Write:
    if field.cpp_type in _INTEGERS:
        return _decimal
    if field.type == FieldDescriptor.TYPE_STRING:
        return str.encode
    if field.type == FieldDescriptor.TYPE_BYTES:
        return bytes
    if field.message_type is None:
        raise InvariantViolation(f"{field.full_name}: a digest has no form for this type")
    plan = _plan(field.message_type)
    return lambda message: _fields_bytes(plan, message)


def _list_writer(write: Write) -> Write:
    def write_list(items: Any) -> bytes:
        return len(items).to_bytes(4, "big") + b"".join(_prefixed(write(item)) for item in items)

    return write_list


def _map_writer(entry: Descriptor) -> Write:
    """A map is a list of its entries, each a message of key (1) and value (2), sorted by key."""
    key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
    if key.type != FieldDescriptor.TYPE_STRING or value.type != FieldDescriptor.TYPE_STRING:
        raise InvariantViolation(f"{entry.full_name}: a command's map holds text")

    def write_map(items: Mapping[str, str]) -> bytes:
        parts = [len(items).to_bytes(4, "big")]
        for name in sorted(items):
            inner = b"".join(
                number + _prefixed(text.encode())
                for number, text in ((b"\0\0\0\1", name), (b"\0\0\0\2", items[name]))
                if text
            )
            parts.append(_prefixed(inner))
        return b"".join(parts)

    return write_map


def _decimal(number: int) -> bytes:
    return b"%d" % number


def _prefixed(octets: bytes) -> bytes:
    return len(octets).to_bytes(4, "big") + octets
