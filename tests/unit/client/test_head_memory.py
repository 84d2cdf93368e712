"""What a client remembers of the log it was shown, and tells with its next call."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.status_pb2 import Status

from ledger.client import AsyncLedger, Ledger, Settings
from ledger.client.head_memory import HeadMemory
from ledger.v1 import log_service_pb2 as logs
from ledger.v1 import run_service_pb2 as runs
from ledger.v1 import types_pb2 as types


def leaf(number: int) -> bytes:
    """A leaf hash."""
    return bytes([number]) * 32


def appended(index: int, *, entries: int = 1) -> types.Append:
    """An append whose last entry has that index."""
    return types.Append(
        index=index,
        leaf_hash=leaf(index),
        tree_size=index + 5,
        entries=entries,
        recorded_at=Timestamp(seconds=1),
    )


def told(memory: HeadMemory) -> tuple[int, bytes]:
    """What the next request says."""
    request = runs.OpenRunRequest(run="r")
    memory.tell(request)
    return request.last_head_seen.size, request.last_head_seen.leaf_hash


def test_nothing_is_told_before_anything_was_seen() -> None:
    request = runs.OpenRunRequest(run="r")
    HeadMemory().tell(request)
    assert not request.HasField("last_head_seen")


def test_the_newest_entry_of_any_answer_is_told_and_an_older_one_never_replaces_it() -> None:
    memory = HeadMemory()
    memory.note(runs.PlanStepsResponse(append=appended(7)))
    assert told(memory) == (8, leaf(7))
    memory.note(runs.CompleteStepResponse(append=appended(3)))  # a repeat of an old answer
    assert told(memory) == (8, leaf(7))
    memory.note(runs.GetRunResponse(run=runs.Run(run="r", index=9, head=leaf(9))))
    assert told(memory) == (10, leaf(9))
    assert memory.size == 10


def test_an_answer_that_appended_nothing_shows_no_head() -> None:
    memory = HeadMemory()
    memory.note(runs.StartStepResponse(append=types.Append()))
    memory.note(runs.OpenRunResponse(run=runs.Run(run="r", index=4)))
    memory.note(logs.GetReceiptResponse(index=8))
    assert memory.size == 0


def test_every_command_of_a_message_shows_its_head() -> None:
    memory = HeadMemory()
    memory.note(
        runs.SubmitResponse(
            results=[
                runs.CommandResult(open_run=runs.OpenRunResponse(append=appended(1))),
                runs.CommandResult(plan_steps=runs.PlanStepsResponse(append=appended(5))),
                runs.CommandResult(error=Status(code=9)),
                runs.CommandResult(),
            ]
        )
    )
    assert told(memory) == (6, leaf(5))


def test_only_requests_that_have_a_place_for_it_are_told() -> None:
    memory = HeadMemory()
    memory.note(runs.PlanStepsResponse(append=appended(7)))
    for request in (
        runs.SubmitRequest(),
        runs.GetResumeStateRequest(),
        logs.GetCheckpointRequest(),
    ):
        memory.tell(request)
        assert request.last_head_seen.size == 8
    renewal = runs.RenewLeaseRequest(run="r")
    memory.tell(renewal)
    assert renewal == runs.RenewLeaseRequest(run="r")


def test_clients_made_with_the_same_settings_remember_apart() -> None:
    settings = Settings()
    first = Ledger.connect("127.0.0.1:1", token="t", settings=settings)
    second = Ledger.connect("127.0.0.1:2", token="t", settings=settings)
    third = AsyncLedger.connect("127.0.0.1:3", token="t", settings=settings)
    memories = [each._settings.head for each in (first, second, third)]
    memories[0].note(runs.PlanStepsResponse(append=appended(7)))
    assert [memory.size for memory in [*memories, settings.head]] == [8, 0, 0, 0]
    first.close()
    second.close()
