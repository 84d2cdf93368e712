"""Bytes that are no message of the contract: cut, not UTF-8, of another type, or of a newer one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from ledger.core.errors import Malformed
from ledger.service import wire
from ledger.service.decode import METHODS, decode_submit, decode_unary, parse
from ledger.v1 import run_service_pb2 as pb
from tests.unit.service.requests import REQUEST_ID, RIGHT, asking, command, payload, step, submit

UNKNOWN = b"\xf8\x3f\x01"  # field 1023, varint 1


def length_prefixed(number: int, octets: bytes) -> bytes:
    """A field of at most 127 bytes, as the wire has it."""
    assert number < 16
    assert len(octets) < 128
    return bytes([number << 3 | 2, len(octets)]) + octets


def fault_of(method: str, octets: bytes) -> Malformed:
    """The fault of bytes that must not be taken."""
    with pytest.raises(Malformed) as caught:
        decode_unary(METHODS[method], octets, asking())
    return caught.value


@pytest.mark.parametrize("method", METHODS)
def test_an_unknown_field_is_refused_in_every_request(method: str) -> None:
    fault = fault_of(method, RIGHT[method]().SerializeToString() + UNKNOWN)
    assert fault.path == "#1023"
    assert "newer client" in fault.reason


def test_an_unknown_field_deep_inside_is_refused_by_its_path() -> None:
    inner = payload().SerializeToString() + UNKNOWN
    planned = step("step-3", arguments=payload()).SerializeToString()
    planned = planned.replace(
        length_prefixed(8, payload().SerializeToString()), length_prefixed(8, inner)
    )
    request = RIGHT["PlanSteps"]()
    octets = request.SerializeToString() + length_prefixed(5, planned)
    assert fault_of("PlanSteps", octets).path == "steps[2].arguments.#1023"


@pytest.mark.parametrize(
    "text", [b"\xed\xa0\x80", b"\xff", b"\xc3", b"a\xf5\x80\x80\x80"], ids=repr
)
def test_a_string_that_is_not_utf8_is_refused_by_its_path(text: bytes) -> None:
    octets = RIGHT["OpenRun"]().SerializeToString() + length_prefixed(2, text)
    fault = fault_of("OpenRun", octets)
    assert fault.path == "run"
    assert "UTF-8" in fault.reason


def test_a_lone_surrogate_deep_inside_is_refused_by_its_path() -> None:
    broken = length_prefixed(6, b"step-1") + length_prefixed(6, b"\xed\xbf\xbf")
    octets = RIGHT["PlanSteps"]().SerializeToString() + length_prefixed(5, broken)
    assert fault_of("PlanSteps", octets).path == "steps[2].after[1]"
    in_submit = length_prefixed(1, length_prefixed(5, length_prefixed(5, broken)))
    with pytest.raises(Malformed) as caught:
        decode_submit(submit(command()) + in_submit, asking())
    assert caught.value.path == "commands[1].plan_steps.steps[0].after[1]"


@pytest.mark.parametrize("method", METHODS)
def test_a_cut_request_is_refused_at_every_length(method: str) -> None:
    whole = RIGHT[method]().SerializeToString()
    for length in range(len(whole)):
        try:
            decoded = decode_unary(METHODS[method], whole[:length], asking())
        except Malformed as fault:
            assert fault.path, length
        else:
            # Cut between two fields it is a shorter message, of which the rest may be optional.
            assert decoded.request.id == REQUEST_ID


def test_a_field_of_another_wire_type_is_refused() -> None:
    octets = RIGHT["OpenRun"]().SerializeToString() + b"\x10\x05"  # field 2 as a varint
    assert fault_of("OpenRun", octets).path == "run"


@pytest.mark.parametrize("octets", [b"\x0b", b"\xff" * 20, b"\x0a\xff\xff\xff\xff\x0f", b"\x00"])
def test_bytes_that_are_no_message_are_refused(octets: bytes) -> None:
    assert fault_of("OpenRun", octets).path


def test_a_hostile_message_is_given_up_on_after_its_first_fields() -> None:
    many = length_prefixed(5, b"") * (wire.VISITS_MAX + 1)
    fault = wire.first_fault(many + UNKNOWN, pb.PlanStepsRequest)
    assert fault is not None
    assert "past its first fields" in fault.reason


def test_a_reading_request_with_an_unknown_field_is_refused() -> None:
    octets = pb.GetRunRequest(run="run-1").SerializeToString() + UNKNOWN
    with pytest.raises(Malformed) as caught:
        parse(pb.GetRunRequest, octets, bytes_max=1_000)
    assert caught.value.path == "#1023"


def kinds(kind: Any) -> Iterator[FieldDescriptor]:
    """Every field below a request."""
    for field in kind.fields:
        yield field
        if field.message_type is not None:
            yield from kinds(field.message_type)


def test_the_walk_knows_every_wire_type_that_requests_use() -> None:
    known = wire._LENGTH_KINDS | {
        FieldDescriptor.TYPE_INT32,
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_BOOL,
        FieldDescriptor.TYPE_ENUM,
    }
    for field in (f for m in METHODS.values() for f in kinds(m.message.DESCRIPTOR)):
        assert field.type in known, field.full_name
        assert not field.is_repeated or field.type in wire._LENGTH_KINDS, field.full_name
