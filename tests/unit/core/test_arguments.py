"""Structured arguments as RFC 8785 bytes, held to the `rfc8785` package."""

from __future__ import annotations

import math
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.core.arguments import encode_arguments
from ledger.core.canonical import DEPTH_MAX, INT_MAX
from ledger.core.errors import Malformed

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
floats = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | texts | st.integers(min_value=-INT_MAX, max_value=INT_MAX) | floats,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_arguments_are_written_as_the_rfc_8785_package_writes_them(value: Any) -> None:
    assert encode_arguments(value) == rfc8785.dumps(value)


@given(floats)
@example(1e21)
@example(1e-7)
@example(-0.0)
@example(5e-324)
@example(123456789012345680000.0)
@example(0.000001)
@example(math.pi * 1e20)
@example(9007199254740994.0)
def test_a_number_is_written_shortest_and_reads_back_the_same(number: float) -> None:
    written = encode_arguments(number)
    assert written == rfc8785.dumps(number)
    assert float(written) == number


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"price": [1, math.nan]}, "$.price[1]"),
        ({"price": {"net": -math.inf}}, "$.price.net"),
        ({"n": 2**53}, "$.n"),
        ({"n": -(2**53)}, "$.n"),
        ({"n": "\udc00"}, "$.n"),
        ({"n": {"\udc00": 1}}, "$.n"),
        ({"n": {1: 1}}, "$.n"),
        ({"n": {None: 1}}, "$.n"),
        ({"n": {"a b": b"x"}}, '$.n["a b"]'),
        ({"n": {1, 2}}, "$.n"),
        ([[object()]], "$[0][0]"),
    ],
)
def test_what_json_cannot_carry_is_refused_where_it_stands(value: object, path: str) -> None:
    with pytest.raises(Malformed) as refused:
        encode_arguments(value)
    assert refused.value.path == path


def test_a_tuple_is_written_as_an_array() -> None:
    assert encode_arguments({"a": (1, ("b",))}) == b'{"a":[1,["b"]]}'


def test_arguments_nested_beyond_the_limit_are_refused_and_a_ring_ends() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(Malformed, match="too deep"):
        encode_arguments(ring)
    value: Any = 1
    for _ in range(DEPTH_MAX):
        value = [value]
    assert encode_arguments(value) == b"[" * DEPTH_MAX + b"1" + b"]" * DEPTH_MAX
    with pytest.raises(Malformed, match="too deep"):
        encode_arguments([value])
