"""Bad input: a clear error with the field's path, nothing half-written, and the server lives."""

from __future__ import annotations

from collections.abc import Callable

import grpc
import pytest

from ledger.v1 import run_service_pb2 as pb
from tests.support.calls import (
    PROCESS,
    Calls,
    Refusal,
    complete_request,
    new_id,
    payload,
    planned,
    refusal_of_error,
)

RUN_SERVICE = "/ledger.v1.RunService"


def raw_refusal(calls: Calls, method: str, octets: bytes) -> Refusal:
    """How a call of raw bytes ended."""
    with pytest.raises(grpc.RpcError) as caught:
        calls.raw(f"{RUN_SERVICE}/{method}", octets)
    return refusal_of_error(caught.value)


def open_bytes(run: bytes) -> bytes:
    """OpenRun with any bytes as its run."""
    request = pb.OpenRunRequest(request_id=new_id()).SerializeToString()
    return request + b"\x12" + bytes([len(run)]) + run


@pytest.mark.parametrize(
    "run", [b"a\x00b", b"\xed\xa0\x80", b"\xff", b"two words", b"_log", b"x" * 126 + b" "]
)
def test_a_run_id_that_is_none_is_refused(
    runtime: Calls, log_size: Callable[[], int], run: bytes
) -> None:
    before = log_size()
    refused = raw_refusal(runtime, "OpenRun", open_bytes(run))
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (refused.field, refused.durability) == ("run", "NOT_COMMITTED")
    assert log_size() == before


@pytest.mark.parametrize(
    ("octets", "field"),
    [
        (b"\xf8\x3f\x01", "#1023"),
        (b"\xff\xff\xff", "message"),
        (b"", "request_id"),
        (b"\x0a\x05ab", "request_id"),
    ],
    ids=["unknown field", "no tag", "empty", "cut off"],
)
def test_bytes_that_are_no_request_are_refused(runtime: Calls, octets: bytes, field: str) -> None:
    refused = raw_refusal(runtime, "CompleteStep", octets)
    assert (refused.code, refused.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)


def test_an_unknown_enum_value_is_refused(runtime: Calls, run: str) -> None:
    token = runtime.driven(run, "s1")
    refused = runtime.refused("CompleteStep", complete_request(run, "s1", token, outcome=9))
    assert (refused.code, refused.field) == (grpc.StatusCode.INVALID_ARGUMENT, "outcome")


def test_a_payload_of_10_mb_is_refused_and_the_server_lives(runtime: Calls, run: str) -> None:
    token = runtime.driven(run, "s1")
    runtime.start(run, "s1", token)
    request = complete_request(run, "s1", token, result=payload(b"x" * 10_000_000))
    with pytest.raises(grpc.RpcError) as caught:
        runtime.call("CompleteStep", request)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert runtime.complete(run, "s1", token).append.entries == 1


def test_a_payload_above_its_limit_names_its_field(runtime: Calls, run: str) -> None:
    token = runtime.driven(run)
    steps = [planned("s1"), planned("s2", arguments=payload(b"x" * 8_000_000))]
    request = pb.PlanStepsRequest(
        request_id=new_id(), run=run, token=token, process=PROCESS, steps=steps
    )
    refused = runtime.refused("PlanSteps", request)
    assert (refused.code, refused.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "LIMIT_EXCEEDED")
    assert refused.field == "steps[1].arguments.content"
    assert not runtime.call("GetRun", pb.GetRunRequest(run=run)).steps


def test_a_message_just_above_the_limit_names_its_largest_field(runtime: Calls, run: str) -> None:
    commands = [
        pb.Command(
            complete_step=complete_request(run, f"s{n}", 1, result=payload(b"x" * 1_000_000))
        )
        for n in range(9)
    ]
    commands[4].complete_step.result.content = b"x" * 1_040_000
    message = pb.SubmitRequest(commands=commands)
    assert 8 << 20 < message.ByteSize() < 9 << 20
    refused = runtime.refused("Submit", message)
    assert (refused.reason, refused.field) == (
        "LIMIT_EXCEEDED",
        "commands[4].complete_step.result.content",
    )


def test_100_000_steps_are_refused_whole(runtime: Calls, run: str) -> None:
    token = runtime.driven(run)
    request = pb.PlanStepsRequest(
        request_id=new_id(),
        run=run,
        token=token,
        process=PROCESS,
        steps=[pb.PlannedStep(step=f"s{n}", tool="pay", tool_version="1") for n in range(100_000)],
    )
    refused = runtime.refused("PlanSteps", request)
    assert (refused.reason, refused.field) == ("LIMIT_EXCEEDED", "steps")
    assert not runtime.call("GetRun", pb.GetRunRequest(run=run)).steps


def test_a_thousand_steps_are_planned_whole(runtime: Calls, run: str) -> None:
    token = runtime.driven(run)
    plan = runtime.plan(run, token, [planned(f"s{n}") for n in range(1_000)])
    assert plan.append.entries == 1_000
    assert len(set(plan.keys)) == 1_000


def test_a_request_id_twice_in_one_message_appends_nothing(
    runtime: Calls, log_size: Callable[[], int]
) -> None:
    before = log_size()
    request_id = new_id()
    commands = [
        pb.Command(open_run=pb.OpenRunRequest(request_id=request_id, run=f"run-{n}"))
        for n in range(2)
    ]
    refused = runtime.refused("Submit", pb.SubmitRequest(commands=commands))
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.field == "commands[1].open_run.request_id"
    assert log_size() == before


def test_a_method_that_is_not_there_is_unimplemented(runtime: Calls) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        runtime.raw(f"{RUN_SERVICE}/DropRun", b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("method", "message", "field"),
    [
        ("GetRun", pb.GetRunRequest(run="run-1", page_size=1_001), "page_size"),
        ("GetRun", pb.GetRunRequest(run="run-1", page_size=-1), "page_size"),
        ("GetRun", pb.GetRunRequest(run="run-1", page_token="nonsense"), "page_token"),
        ("GetRun", pb.GetRunRequest(), "run"),
        ("ListRuns", pb.ListRunsRequest(page_token="WyJhIl0"), "page_token"),
    ],
)
def test_a_reading_request_out_of_its_limits_is_refused(
    runtime: Calls, method: str, message: object, field: str
) -> None:
    refused = runtime.refused(method, message)
    assert (refused.code, refused.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)
