"""Canonical JSON: the one way in which a value is written before it is hashed.

RFC 8785 (JCS). Entries use a narrow part of JSON, which `encode`, `load` and `parse` hold to:
objects, arrays, strings and integers from 0 to 2**53-1, at most 16 levels deep, `null` only at
the paths that the caller names. Arguments that a caller sends may be any I-JSON value;
`ledger.core.arguments` writes those.

A scalar stands at depth 0, an array or object one above the deepest thing in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple, NoReturn, TypeAlias

import orjson

from ledger.core.errors import Malformed

JsonValue: TypeAlias = "str | int | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"

INT_MAX: Final = 2**53 - 1
DEPTH_MAX: Final = 16
ROOT: Final = "$"

_NO_PATHS: Final[frozenset[str]] = frozenset()
# Every native extra of orjson that can be switched off is; `_is_plain` refuses the rest.
_OPTIONS: Final = (
    orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)
_SORTED: Final = _OPTIONS | orjson.OPT_SORT_KEYS


class Loaded(NamedTuple):
    """A parsed document, and whether its bytes are the canonical ones."""

    value: JsonObject
    is_canonical: bool


def encode(
    value: object,
    *,
    depth_max: int = DEPTH_MAX,
    null_paths: frozenset[str] = _NO_PATHS,
) -> bytes:
    """The RFC 8785 bytes of a value made of plain dict, list, str and int.

    Subclasses, booleans, floats, tuples, integers outside 0..2**53-1, lone surrogates, keys that
    are not strings, `None` anywhere but at `null_paths` and more than `depth_max` levels are
    refused. Raises `Malformed` naming the first such place.
    """
    if _is_plain(value, depth_max):
        raw = _dump_sorted(value)
        if raw is not None:
            return raw
    _refuse_first_fault(value, ROOT, depth_max, null_paths)
    return _encode_by_utf16_order(value)


def load(
    raw: bytes,
    *,
    length_max: int,
    depth_max: int = DEPTH_MAX,
    null_paths: frozenset[str] = _NO_PATHS,
) -> Loaded:
    """Read one object strictly, in this order: length, UTF-8, JSON, kinds of values, depth.

    A byte order mark, duplicate members, NaN, infinities, floats, booleans and whatever `encode`
    refuses raise `Malformed` with the path. Only bytes that differ from the canonical ones while
    meaning the same are let through, as `is_canonical=False`, so that a reader can check the schema
    first (formats, section 1).
    """
    if len(raw) > length_max:
        raise Malformed(ROOT, f"longer than {length_max} bytes")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        _refuse_unreadable(raw, depth_max, null_paths)
    if type(value) is not dict:
        raise Malformed(ROOT, "not an object")
    if _is_plain(value, depth_max) and _dump_sorted(value) == raw:
        return Loaded(value, is_canonical=True)
    # The standard library's reader keeps what orjson drops (repeated members, the spelling of
    # numbers). It is slow and runs only on what is refused, or allowed in few places.
    _refuse_first_fault(_load_keeping_all(raw, depth_max), ROOT, depth_max, null_paths)
    return Loaded(value, is_canonical=_encode_by_utf16_order(value) == raw)


def parse(
    raw: bytes,
    *,
    length_max: int,
    depth_max: int = DEPTH_MAX,
    null_paths: frozenset[str] = _NO_PATHS,
) -> JsonObject:
    """Read one object whose bytes must be the canonical ones.

    Raises `Malformed` as `load` does, and where the bytes are not canonical. An object that comes
    back, written by `encode`, gives `raw` again.
    """
    loaded = load(raw, length_max=length_max, depth_max=depth_max, null_paths=null_paths)
    if not loaded.is_canonical:
        raise Malformed(ROOT, "not in canonical form (RFC 8785)")
    return loaded.value


def member_path(path: str, name: str) -> str:
    """The path of an object's member: `$.name`, or `$["any other"]`."""
    if name.isascii() and name.isidentifier():
        return f"{path}.{name}"
    return f"{path}[{json.dumps(name)}]"


def utf16_order(name: str) -> bytes:
    """The sort key of RFC 8785 section 3.2.3: UTF-16 code units."""
    return name.encode("utf-16-be")


def _is_plain(value: object, depth_left: int) -> bool:
    """Whether a value holds nothing but what an entry may; False means look closer.

    Names are left to orjson, which refuses all but plain strings.
    """
    kind = type(value)
    if kind is dict:
        members: Iterable[object] = value.values()  # type: ignore[attr-defined]
    elif kind is list:
        members = value  # type: ignore[assignment]
    else:
        return kind is str or (kind is int and 0 <= value <= INT_MAX)  # type: ignore[operator]
    if depth_left == 0:
        return False
    for member in members:
        kind = type(member)
        if kind is str:
            continue
        if kind is int:
            if not 0 <= member <= INT_MAX:  # type: ignore[operator]
                return False
        elif not _is_plain(member, depth_left - 1):
            return False
    return True


def _dump_sorted(value: object) -> bytes | None:
    """The canonical bytes where orjson surely writes them; None means take the slow way.

    orjson sorts names by code point, RFC 8785 by UTF-16 code unit; the two differ above U+FFFF, and
    never where all is ASCII.
    """
    try:
        raw = orjson.dumps(value, option=_SORTED)
    except orjson.JSONEncodeError:
        return None
    return raw if raw.isascii() else None


class _Repeated(dict[str, object]):
    """An object in which a member stood twice; `name` is the first such."""

    __slots__ = ("name",)
    name: str


def _refuse_first_fault(
    value: object, path: str, depth_left: int, null_paths: frozenset[str]
) -> None:
    """Raise `Malformed` for the first thing, in document order, that an entry may not hold."""
    kind = type(value)
    if kind is _Repeated and isinstance(value, _Repeated):
        raise Malformed(member_path(path, value.name), "stands twice in its object")
    if isinstance(value, dict) and kind is dict:
        _refuse_too_deep(path, depth_left)
        for name, member in value.items():
            if type(name) is not str:
                raise Malformed(path, "has a member whose name is not a string")
            _refuse_surrogates(name, path)
            _refuse_first_fault(member, member_path(path, name), depth_left - 1, null_paths)
    elif isinstance(value, list) and kind is list:
        _refuse_too_deep(path, depth_left)
        for position, item in enumerate(value):
            _refuse_first_fault(item, f"{path}[{position}]", depth_left - 1, null_paths)
    elif isinstance(value, str) and kind is str:
        _refuse_surrogates(value, path)
    elif isinstance(value, int) and kind is int:
        if not 0 <= value <= INT_MAX:
            raise Malformed(path, "is outside 0..2^53-1")
    elif value is None:
        if path not in null_paths:
            raise Malformed(path, "is null, which may not stand here")
    else:
        raise Malformed(path, f"is a {kind.__name__}, which an entry cannot hold")


def _refuse_too_deep(path: str, depth_left: int) -> None:
    if depth_left == 0:
        raise Malformed(path, "is nested too deep")


def _refuse_surrogates(text: str, path: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise Malformed(path, "holds a lone surrogate") from None


def _encode_by_utf16_order(value: object) -> bytes:
    return orjson.dumps(_in_utf16_order(value), option=_OPTIONS)


def _in_utf16_order(value: object) -> object:
    if isinstance(value, dict):
        names = sorted(value, key=utf16_order)
        return {name: _in_utf16_order(value[name]) for name in names}
    if isinstance(value, list):
        return [_in_utf16_order(item) for item in value]
    return value


def _refuse_unreadable(raw: bytes, depth_max: int, null_paths: frozenset[str]) -> NoReturn:
    """Say what is wrong with bytes that orjson could not read."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise Malformed(ROOT, f"not UTF-8 at byte {fault.start}") from None
    if raw.startswith(b"\xef\xbb\xbf"):
        raise Malformed(ROOT, "begins with a byte order mark")
    # NaN and lone surrogates pass the standard library's reader, which keeps their path.
    _refuse_first_fault(_load_keeping_all(raw, depth_max), ROOT, depth_max, null_paths)
    raise Malformed(ROOT, "not JSON")


def _load_keeping_all(raw: bytes, depth_max: int) -> object:
    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=_keep_repeated)
    except RecursionError:
        raise Malformed(ROOT, f"is nested deeper than {depth_max} levels") from None
    except json.JSONDecodeError as fault:
        raise Malformed(ROOT, f"not JSON at character {fault.pos}") from None
    except ValueError:
        raise Malformed(ROOT, "holds an integer of too many digits") from None


def _keep_repeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    repeated: _Repeated | None = None
    for name, member in pairs:
        if name in members and repeated is None:
            repeated = _Repeated()
            repeated.name = name
        members[name] = member
    return members if repeated is None else repeated
