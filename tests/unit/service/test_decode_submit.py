"""Many commands in one message: each its own fault, the message's faults its own."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.core.commands import CompleteStep, OpenRun
from ledger.core.errors import Malformed
from ledger.service.decode import (
    IN_SUBMIT,
    METHODS,
    Decoded,
    decode_submit,
    decode_unary,
)
from ledger.service.faults import LimitPassed
from ledger.v1 import run_service_pb2 as pb
from tests.unit.service.requests import RIGHT, asking, command, submit

UNKNOWN = b"\xf8\x3f\x01"


def a_right(method: str) -> Any:
    """A right request, whatever its type."""
    return RIGHT[method]()


def message_fault(octets: bytes, **limits: int) -> Malformed:
    """The fault of a whole message."""
    with pytest.raises(Malformed) as caught:
        decode_submit(octets, asking(**limits))
    return caught.value


def test_commands_come_out_in_order() -> None:
    complete = pb.Command(complete_step=a_right("CompleteStep"))
    decoded = decode_submit(submit(command(7), complete, command(9)), asking())
    kinds = [type(one.request.command) for one in decoded if isinstance(one, Decoded)]
    assert kinds == [OpenRun, CompleteStep, OpenRun]


@pytest.mark.parametrize("field", IN_SUBMIT)
def test_a_command_means_the_same_through_both_doors(field: str) -> None:
    method = IN_SUBMIT[field]
    message = a_right(method.name)
    alone = decode_unary(method, message.SerializeToString(), asking())
    (among,) = decode_submit(submit(pb.Command(**{field: message})), asking())
    assert among == alone


def test_every_mutating_method_of_runs_has_a_place_in_submit() -> None:
    names = {method.name for method in IN_SUBMIT.values()}
    assert METHODS.keys() - names == {"AllowDowngrade"}


def test_a_malformed_command_is_its_own_fault_and_its_neighbours_are_taken() -> None:
    decoded = decode_submit(submit(command(1), command(2, run="no good"), command(3)), asking())
    assert isinstance(decoded[0], Decoded)
    assert isinstance(decoded[2], Decoded)
    assert isinstance(decoded[1], Malformed)
    assert decoded[1].path == "commands[1].open_run.run"


def test_an_unknown_field_in_a_command_is_that_commands_fault() -> None:
    inner = command(2).SerializeToString() + UNKNOWN
    octets = submit(command(1)) + bytes([0x0A, len(inner)]) + inner + submit(command(3))
    decoded = decode_submit(octets, asking())
    assert [isinstance(one, Decoded) for one in decoded] == [True, False, True]
    assert isinstance(decoded[1], Malformed)
    assert decoded[1].path == "commands[1].#1023"


def test_a_command_of_a_newer_kind_is_its_own_fault() -> None:
    octets = submit(command(1), pb.Command(), command(3)).replace(
        b"\x0a\x00", bytes([0x0A, len(UNKNOWN)]) + UNKNOWN
    )
    decoded = decode_submit(octets, asking())
    assert isinstance(decoded[1], Malformed)
    assert decoded[1].path == "commands[1].#1023"


def test_an_empty_command_is_its_own_fault() -> None:
    decoded = decode_submit(submit(command(1), pb.Command()), asking())
    assert isinstance(decoded[1], Malformed)
    assert decoded[1].path == "commands[1].command"


def test_a_request_id_twice_in_one_message_is_the_messages_fault() -> None:
    fault = message_fault(submit(command(1), command(2), command(1)))
    assert fault.path == "commands[2].open_run.request_id"
    assert "commands[0]" in fault.reason


def test_a_request_id_twice_is_found_beside_a_malformed_command() -> None:
    fault = message_fault(submit(command(1, run="no good"), command(1)))
    assert fault.path == "commands[1].open_run.request_id"


def test_a_missing_request_id_is_the_commands_fault_even_twice() -> None:
    nameless = pb.Command(open_run=pb.OpenRunRequest(run="run-1"))
    decoded = decode_submit(submit(nameless, nameless), asking())
    assert [one.path for one in decoded if isinstance(one, Malformed)] == [
        "commands[0].open_run.request_id",
        "commands[1].open_run.request_id",
    ]


def test_no_commands_too_many_and_too_many_bytes_are_the_messages_fault() -> None:
    assert message_fault(b"").path == "commands"
    many = message_fault(submit(*(command(n) for n in range(1_001))))
    assert isinstance(many, LimitPassed)
    assert many.path == "commands"
    wide = message_fault(submit(command(1), command(2)), message_bytes_max=90)
    assert isinstance(wide, LimitPassed)
    assert wide.path.startswith("commands[")


def test_an_unknown_field_of_the_message_is_the_messages_fault() -> None:
    assert message_fault(submit(command(1)) + UNKNOWN).path == "#1023"
