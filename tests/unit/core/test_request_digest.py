"""The digest of a request's content: its exact bytes, and what does and does not change it."""

from __future__ import annotations

import doctest
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core import request_digest as module
from ledger.core.request_digest import (
    FieldValue,
    Message,
    Present,
    encode_fields,
    request_digest,
)

scalars = st.binary(max_size=6) | st.text(max_size=6) | st.integers(min_value=0, max_value=2**63)
fields = st.dictionaries(
    st.integers(min_value=1, max_value=20), scalars | st.lists(scalars, max_size=3), max_size=5
).map(lambda members: list(members.items()))


def _lp(octets: bytes) -> bytes:
    return len(octets).to_bytes(4, "big") + octets


def test_the_documented_example_is_what_the_code_does() -> None:
    result = doctest.testmod(module)
    assert result.attempted >= 6
    assert result.failed == 0


def test_the_digest_is_built_as_the_rules_prescribe() -> None:
    nested = b"\x00\x00\x00\x02" + _lp(b"17") + b"\x00\x00\x00\x05" + _lp(b"\xff")
    listed = b"\x00\x00\x00\x02" + _lp(b"a") + _lp(b"")
    octets = b"ledger.request.v1\x00" + _lp(b"PlanSteps")
    octets += b"\x00\x00\x00\x01" + _lp("run-\u00e9".encode())
    octets += b"\x00\x00\x00\x03" + _lp(nested)
    octets += b"\x00\x00\x00\x04" + _lp(listed)
    content: list[tuple[int, FieldValue]] = [
        (4, ["a", ""]),
        (3, Message([(5, b"\xff"), (2, 17), (9, "")])),
        (1, "run-\u00e9"),
    ]
    assert request_digest("PlanSteps", content) == hashlib.sha256(octets).digest()


@given(fields)
def test_the_order_in_which_fields_are_given_does_not_matter(
    content: list[tuple[int, FieldValue]],
) -> None:
    turned = list(reversed(content))
    assert request_digest("OpenRun", turned) == request_digest("OpenRun", content)


@given(fields)
def test_fields_at_their_default_are_left_out(content: list[tuple[int, FieldValue]]) -> None:
    spare: list[tuple[int, FieldValue]] = [(30, ""), (31, b""), (32, 0), (33, False), (34, [])]
    assert encode_fields([*spare, *content]) == encode_fields(content)


@given(fields, fields)
def test_other_content_gives_other_bytes(
    one: list[tuple[int, FieldValue]], other: list[tuple[int, FieldValue]]
) -> None:
    def present(content: list[tuple[int, FieldValue]]) -> dict[int, object]:
        return {number: _plain(value) for number, value in content if value}

    assert (encode_fields(one) == encode_fields(other)) == (present(one) == present(other))


def _plain(value: FieldValue) -> object:
    """A value as its bytes: a schema fixes the kind of a field, so kinds need not be told apart."""
    if isinstance(value, list):
        return b"".join([len(value).to_bytes(4, "big"), *(_lp(_scalar(item)) for item in value)])
    return _scalar(value)


def _scalar(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return str(value).encode()


def test_presence_counts_where_a_field_has_it() -> None:
    assert encode_fields([(1, Present(0))]) == b"\x00\x00\x00\x01" + _lp(b"0")
    assert encode_fields([(1, Message([]))]) == b"\x00\x00\x00\x01" + _lp(b"")
    assert encode_fields([(1, True)]) == encode_fields([(1, 1)])


def test_another_method_gives_another_digest() -> None:
    assert request_digest("OpenRun", [(1, "a")]) != request_digest("CloseRun", [(1, "a")])


@pytest.mark.parametrize("content", [[(1, "a"), (1, "b")], [(0, "a")], [(-1, "a")], [(2**29, "a")]])
def test_a_field_number_that_cannot_be_is_refused(content: list[tuple[int, FieldValue]]) -> None:
    with pytest.raises(ValueError, match="field"):
        encode_fields(content)
