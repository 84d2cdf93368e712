"""How an event's body is described: fields of closed kinds, read, written and drawn as JSON Schema.

A body is a frozen dataclass whose annotations name the kinds below. A field with a default may be
absent from the JSON, and is absent exactly when it holds the default: one value, one form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from enum import StrEnum
from typing import Any, ClassVar, Final, Self, get_type_hints

from ledger.core import ids
from ledger.core.canonical import INT_MAX, JsonObject
from ledger.core.errors import InvariantViolation, Malformed
from ledger.core.times import format_time, parse_time
from ledger.core.value import value

LIST_LENGTH_MAX: Final = 64
BODY_PATH: Final = "$.event.body"
ID_SCHEMA: Final[JsonObject] = {"type": "string", "pattern": "^[A-Za-z0-9._:/@#-]{1,128}$"}


@value()
class Kind:
    """One kind of value: to JSON, from JSON (raising `Malformed` at a path), and its schema."""

    name: str
    write: Callable[[Any], Any]
    read: Callable[[Any, str], Any]
    schema: JsonObject


def _same(value: Any) -> Any:
    return value


def _read_id(value: Any, path: str) -> str:
    if type(value) is not str:
        raise Malformed(path, "is not a string")
    return ids.any_id(str, value, path=path)


def _read_name(value: Any, path: str) -> str:
    if type(value) is not str:
        raise Malformed(path, "is not a string")
    return ids.origin(value, path=path)


def _read_int(value: Any, path: str) -> int:
    if type(value) is not int or not 0 <= value <= INT_MAX:
        raise Malformed(path, "is not an integer of 0..2^53-1")
    return value


def _read_positive(value: Any, path: str) -> int:
    if _read_int(value, path) == 0:
        raise Malformed(path, "is not above 0")
    return int(value)


def _read_time(value: Any, path: str) -> int:
    if type(value) is not str:
        raise Malformed(path, "is not a string")
    return parse_time(value, path=path)


def _read_flag(value: Any, path: str) -> bool:
    if type(value) is not int or value != 1:
        raise Malformed(path, "is not 1; a flag is 1 or absent")
    return True


def _read_ids(value: Any, path: str) -> tuple[str, ...]:
    if type(value) is not list or not 1 <= len(value) <= LIST_LENGTH_MAX:
        raise Malformed(path, f"is not an array of 1 to {LIST_LENGTH_MAX}")
    return tuple(_read_id(item, f"{path}[{at}]") for at, item in enumerate(value))


def _read_labels(value: Any, path: str) -> tuple[tuple[str, str], ...]:
    if type(value) is not dict or not 1 <= len(value) <= 16:
        raise Malformed(path, "is not an object of 1 to 16 members")
    return tuple((_read_id(name, path), _read_id(value[name], f"{path}.{name}")) for name in value)


_TIME_SCHEMA: Final[JsonObject] = {
    "type": "string",
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$",
}
_INT_SCHEMA: Final[JsonObject] = {"type": "integer", "minimum": 0, "maximum": INT_MAX}
_NAME_SCHEMA: Final[JsonObject] = {
    "type": "string",
    "pattern": "^[a-z0-9.-]+(/[a-z0-9._-]+)*$",
    "maxLength": ids.ORIGIN_LENGTH_MAX,
}
_KINDS: Final = {
    "Id": Kind("Id", _same, _read_id, ID_SCHEMA),
    "Name": Kind("Name", _same, _read_name, _NAME_SCHEMA),
    "Int": Kind("Int", _same, _read_int, _INT_SCHEMA),
    "Positive": Kind("Positive", _same, _read_positive, {**_INT_SCHEMA, "minimum": 1}),
    "Time": Kind("Time", format_time, _read_time, _TIME_SCHEMA),
    "Flag": Kind("Flag", int, _read_flag, {"type": "integer", "const": 1}),
    "Ids": Kind(
        "Ids",
        list,
        _read_ids,
        {"type": "array", "items": ID_SCHEMA, "minItems": 1, "maxItems": LIST_LENGTH_MAX},
    ),
    "Labels": Kind(
        "Labels",
        dict,
        _read_labels,
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 16,
            "propertyNames": ID_SCHEMA,
            "additionalProperties": ID_SCHEMA,
        },
    ),
}
Id = str
"""An id (formats, section 1)."""
Name = str
"""The name of a log, its origin."""
Int = int
"""An integer of 0..2^53-1."""
Positive = int
"""An integer of 1..2^53-1."""
Time = int
"""Ledger time: microseconds since the epoch here, 27 characters in an entry."""
Flag = bool
"""A flag: 1 or absent."""
Ids = tuple[str, ...]
"""1 to 64 ids, or absent."""
Labels = tuple[tuple[str, str], ...]
"""1 to 16 pairs of ids in an object, or absent; sorted by name."""


def _enum_kind(vocabulary: type[StrEnum]) -> Kind:
    words = [word.value for word in vocabulary]

    def read(value: Any, path: str) -> StrEnum:
        if type(value) is not str or value not in words:
            raise Malformed(path, f"is none of {', '.join(words)}")
        return vocabulary(value)

    return Kind(vocabulary.__name__, str, read, {"type": "string", "enum": [*words]})


@value()
class Field:
    """One field of a body. `absent` is the default that is never written, MISSING if required."""

    attribute: str
    member: str
    kind: Kind
    absent: Any


@value()
class Body:
    """The body of one event type. Subclasses say their type and fields."""

    TYPE: ClassVar[str] = ""
    MEANING: ClassVar[str] = ""

    def to_json(self) -> JsonObject:
        """The body as it stands in an entry."""
        written: JsonObject = {}
        for attribute, member, absent, write in _writing_of(type(self)):
            value = getattr(self, attribute)
            if value != absent:
                written[member] = value if write is None else write(value)
        return written

    @classmethod
    def from_json(cls, body: JsonObject) -> Self:
        """Read a body. Raises `Malformed` for a missing, unknown or ill-formed member, and for one
        that is written though it holds its default."""
        known = fields_of(cls)
        values = {}
        for field in known:
            if field.member in body:
                path = f"{BODY_PATH}.{field.member}"
                value = field.kind.read(body[field.member], path)
                if value == field.absent:
                    raise Malformed(path, "is written though it holds its default")
                values[field.attribute] = value
            elif field.absent is MISSING:
                raise Malformed(f"{BODY_PATH}.{field.member}", "is missing")
        if len(values) != len(body):
            names = {field.member for field in known}
            extra = min(name for name in body if name not in names)
            raise Malformed(f"{BODY_PATH}.{extra}", "is not a member known here")
        return cls(**values)


def fields_of(body: type[Body]) -> tuple[Field, ...]:
    """The fields of a body type in the order they are declared."""
    known = _FIELDS.get(body.TYPE)
    if known is None:
        known = _FIELDS[body.TYPE] = _declared_fields(body)
    return known


_FIELDS: Final[dict[str, tuple[Field, ...]]] = {}
_Writing = tuple[str, str, Any, Callable[[Any], Any] | None]
_WRITING: Final[dict[str, tuple[_Writing, ...]]] = {}


def _writing_of(body: type[Body]) -> tuple[_Writing, ...]:
    """What `to_json` needs of each field, with nothing to call where the value stands as it is."""
    known = _WRITING.get(body.TYPE)
    if known is None:
        known = _WRITING[body.TYPE] = tuple(
            (f.attribute, f.member, f.absent, None if f.kind.write is _same else f.kind.write)
            for f in fields_of(body)
        )
    return known


def _declared_fields(body: type[Body]) -> tuple[Field, ...]:
    hints = get_type_hints(body)
    made = []
    for declared in fields(body):
        word = str(declared.type)
        kind = _KINDS.get(word)
        if kind is None:
            vocabulary = hints[declared.name]
            if not (isinstance(vocabulary, type) and issubclass(vocabulary, StrEnum)):
                raise InvariantViolation(f"{body.__name__}.{declared.name} is of no known kind")
            kind = _enum_kind(vocabulary)
        member = _MEMBERS.get(declared.name, declared.name)
        made.append(Field(declared.name, member, kind, declared.default))
    return tuple(made)


_MEMBERS: Final = {"effect": "class"}
"""Attributes whose member is named by a word that Python keeps for itself."""


def body_schema(body: type[Body]) -> JsonObject:
    """The JSON Schema of one body type (draft 2020-12)."""
    known = fields_of(body)
    return {
        "type": "object",
        "description": body.MEANING,
        "properties": {field.member: field.kind.schema for field in known},
        "required": [*sorted(field.member for field in known if field.absent is MISSING)],
        "additionalProperties": False,
    }
