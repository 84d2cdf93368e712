"""The canonical form of entries, held to the `rfc8785` package and to hostile bytes."""

from __future__ import annotations

import enum
import json
import uuid
from collections import OrderedDict
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledger.core.canonical import DEPTH_MAX, INT_MAX, encode, load, parse
from ledger.core.errors import Malformed
from tests.support.ci import in_ci

LIMIT = 32_768

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = texts | st.integers(min_value=0, max_value=INT_MAX)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
objects = st.dictionaries(texts, values, max_size=5)


@given(objects)
@example({"\ufb33": 1, "\U0001f600": 2})
@example({"\u20ac": 1, "\r": 2, "1": 3, "\u0080": 4, "\u00f6": 5})
@example({"": '\x00\x1f\x7f\u2028\\/"\b\f\n\r\t'})
def test_encode_writes_what_the_rfc_8785_package_writes(value: dict[str, Any]) -> None:
    raw = encode(value)
    assert raw == rfc8785.dumps(value)
    assert parse(raw, length_max=LIMIT * 10) == value


@given(objects, st.data())
@settings(max_examples=300 if in_ci() else 50)
def test_a_changed_byte_is_refused_or_gives_another_canonical_value(
    value: dict[str, Any], choice: st.DataObject
) -> None:
    raw = bytearray(encode(value))
    position = choice.draw(st.integers(min_value=0, max_value=len(raw) - 1))
    raw[position] ^= choice.draw(st.integers(min_value=1, max_value=255))
    try:
        changed = parse(bytes(raw), length_max=LIMIT * 10)
    except Malformed:
        return
    assert changed != value
    assert rfc8785.dumps(changed) == bytes(raw)


@given(objects, st.data())
@settings(max_examples=100 if in_ci() else 50)
def test_an_inserted_byte_is_refused_or_gives_another_canonical_value(
    value: dict[str, Any], choice: st.DataObject
) -> None:
    raw = bytearray(encode(value))
    position = choice.draw(st.integers(min_value=0, max_value=len(raw)))
    raw.insert(position, choice.draw(st.sampled_from(b' \t\n"\\,:0159-.eE{}[]ntfa/u')))
    try:
        changed = parse(bytes(raw), length_max=LIMIT * 10)
    except Malformed:
        return
    assert changed != value
    assert rfc8785.dumps(changed) == bytes(raw)


@given(
    st.binary(max_size=60) | st.text(alphabet='{}[]",:01-.e\\u dtrunl', max_size=40).map(str.encode)
)
def test_arbitrary_bytes_are_refused_or_canonical(raw: bytes) -> None:
    try:
        value = parse(raw, length_max=LIMIT)
    except Malformed:
        return
    assert rfc8785.dumps(value) == raw


NOT_CANONICAL = {
    "space after a colon": b'{"a": 1}',
    "space before the end": b'{"a":1 }',
    "newline at the end": b'{"a":1}\n',
    "members out of order": b'{"b":1,"a":2}',
    "members by code point instead of UTF-16": '{"\ufb33":1,"\U0001f600":2}'.encode(),
    "escaped letter": b'{"a":"\\u0041"}',
    "escaped solidus": b'{"a":"\\/"}',
    "long escape of a newline": b'{"a":"\\u000a"}',
    "upper-case escape": b'{"a":"\\u001F"}',
    "escaped character outside ASCII": b'{"a":"\\u00e9"}',
    "escaped surrogate pair": b'{"a":"\\ud83d\\ude00"}',
    "minus zero": b'{"a":-0}',
}


@pytest.mark.parametrize("raw", NOT_CANONICAL.values(), ids=NOT_CANONICAL)
def test_another_spelling_is_refused(raw: bytes) -> None:
    with pytest.raises(Malformed):
        parse(raw, length_max=LIMIT)


REFUSED = {
    "empty": (b"", "$"),
    "byte order mark": (b'\xef\xbb\xbf{"a":1}', "$"),
    "UTF-16": ('{"a":1}'.encode("utf-16"), "$"),
    "overlong UTF-8": (b'{"a":"\xc0\xaf"}', "$"),
    "surrogate in UTF-8": (b'{"a":"\xed\xa0\x80"}', "$"),
    "truncated UTF-8": (b'{"a":"\xe2\x82"}', "$"),
    "lone surrogate escape": (b'{"a":{"b":"\\ud800"}}', "$.a.b"),
    "lone surrogate in a name": (b'{"a":{"\\udfff":1}}', "$.a"),
    "array at the top": (b"[]", "$"),
    "string at the top": (b'"a"', "$"),
    "null at the top": (b"null", "$"),
    "two documents": (b"{}{}", "$"),
    "trailing comma": (b'{"a":1,}', "$"),
    "comment": (b'{"a":1}//', "$"),
    "single quotes": (b"{'a':1}", "$"),
    "raw control character": (b'{"a":"\x01"}', "$"),
    "repeated member, same value": (b'{"a":1,"a":1}', "$.a"),
    "repeated member, other value": (b'{"x":[{"a":1,"a":2}]}', "$.x[0].a"),
    "repeated member spelled apart": (b'{"x":{"a":1,"\\u0061":1}}', "$.x.a"),
    "float": (b'{"a":[1,1.5]}', "$.a[1]"),
    "float that is whole": (b'{"a":1.0}', "$.a"),
    "exponent": (b'{"a":1e3}', "$.a"),
    "NaN": (b'{"a":NaN}', "$.a"),
    "infinity": (b'{"a":-Infinity}', "$.a"),
    "infinity by exponent": (b'{"a":1e999}', "$.a"),
    "true": (b'{"a":true}', "$.a"),
    "false": (b'{"a":{"b c":false}}', '$.a["b c"]'),
    "null": (b'{"a":null}', "$.a"),
    "negative": (b'{"a":-1}', "$.a"),
    "leading zero": (b'{"a":01}', "$"),
    "2^53": (b'{"a":9007199254740992}', "$.a"),
    "2^64": (b'{"a":18446744073709551616}', "$.a"),
    "5,000 digits": (b'{"a":' + b"9" * 5000 + b"}", "$"),
}


@pytest.mark.parametrize(("raw", "path"), REFUSED.values(), ids=REFUSED)
def test_what_an_entry_cannot_hold_is_refused_where_it_stands(raw: bytes, path: str) -> None:
    with pytest.raises(Malformed) as refused:
        load(raw, length_max=LIMIT)
    assert refused.value.path == path


def test_load_lets_another_spelling_through_and_says_so() -> None:
    assert load(b'{"b":1, "a":2}', length_max=LIMIT) == ({"b": 1, "a": 2}, False)
    assert load(b'{"a":2,"b":1}', length_max=LIMIT) == ({"b": 1, "a": 2}, True)


def test_the_length_limit_is_checked_before_anything_else() -> None:
    raw = b'{"a":"' + b"x" * 10 + b'"}'
    assert parse(raw, length_max=len(raw)) == {"a": "x" * 10}
    with pytest.raises(Malformed, match="longer than 17 bytes"):
        parse(raw, length_max=len(raw) - 1)
    with pytest.raises(Malformed, match="longer than 3 bytes"):
        parse(b"\xff\xff\xff\xff", length_max=3)


@pytest.mark.parametrize("kind", ["object", "array"])
def test_sixteen_levels_stand_and_seventeen_are_refused(kind: str) -> None:
    for depth in (DEPTH_MAX, DEPTH_MAX + 1):
        value: Any = "x"
        for _ in range(depth - 1):
            value = {"a": value} if kind == "object" else [value]
        value = {"a": value}
        raw = json.dumps(value, separators=(",", ":")).encode()
        if depth == DEPTH_MAX:
            assert encode(value) == raw
            assert parse(raw, length_max=LIMIT) == value
            continue
        with pytest.raises(Malformed, match="too deep"):
            encode(value)
        with pytest.raises(Malformed, match="too deep"):
            parse(raw, length_max=LIMIT)


@pytest.mark.parametrize("opening", [b'{"a":', b"["])
def test_a_bomb_of_brackets_is_refused(opening: bytes) -> None:
    with pytest.raises(Malformed):
        parse(opening * 30_000, length_max=10 * LIMIT)
    closing = b"}" if opening.startswith(b"{") else b"]"
    with pytest.raises(Malformed):
        parse(opening * 900 + b"1" + closing * 900, length_max=10 * LIMIT)


def test_null_stands_only_at_the_paths_that_are_named() -> None:
    paths = frozenset({"$.run.prev"})
    raw = b'{"run":{"prev":null}}'
    assert encode({"run": {"prev": None}}, null_paths=paths) == raw
    assert parse(raw, length_max=LIMIT, null_paths=paths) == {"run": {"prev": None}}
    for value in ({"prev": None}, {"run": {"prev": [None]}}, {"run": {"other": None}}):
        with pytest.raises(Malformed, match="is null"):
            encode(value, null_paths=paths)
        with pytest.raises(Malformed, match="is null"):
            parse(json.dumps(value).encode(), length_max=LIMIT, null_paths=paths)


class _Text(str):
    __slots__ = ()


class _Flag(enum.Enum):
    UP = "up"


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": True}, "$.a"),
        ({"a": [0, 1.0]}, "$.a[1]"),
        ({"a": -1}, "$.a"),
        ({"a": INT_MAX + 1}, "$.a"),
        ({"a": 10**40}, "$.a"),
        ({"a": ("x",)}, "$.a"),
        ({"a": b"x"}, "$.a"),
        ({"a": uuid.UUID(int=0)}, "$.a"),
        ({"a": _Text("x")}, "$.a"),
        ({"a": _Flag.UP}, "$.a"),
        ({"a": OrderedDict(b=1)}, "$.a"),
        ({"a": {1: "x"}}, "$.a"),
        ({"a": {_Text("b"): "x"}}, "$.a"),
        ({"a": {"b": "\ud800"}}, "$.a.b"),
        ({"a": {"\ud800": "b"}}, "$.a"),
    ],
)
def test_encode_refuses_what_is_not_plain_where_it_stands(value: object, path: str) -> None:
    with pytest.raises(Malformed) as refused:
        encode(value)
    assert refused.value.path == path


def test_a_refusal_never_repeats_the_text_that_was_refused() -> None:
    with pytest.raises(Malformed) as refused:
        parse(b'{"a":"secret-text","b":1.5}', length_max=LIMIT)
    assert "secret-text" not in str(refused.value)
