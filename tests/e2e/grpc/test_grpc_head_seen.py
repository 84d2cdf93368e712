"""Formats, section 3: a client tells what it last saw, and is told where the log lost it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from ledger.v1 import log_service_pb2 as log_pb
from ledger.v1 import review_service_pb2 as review_pb
from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import types_pb2
from tests.support.calls import (
    PROCESS,
    Calls,
    Refusal,
    complete_request,
    new_id,
    payload,
    planned,
    start_request,
)

LogSize = Callable[[], int]
OTHER_LEAF = b"\x5a" * 32


def seen_by(append: types_pb2.Append) -> types_pb2.LogHead:
    """What a client saw that got this answer."""
    return types_pb2.LogHead(size=append.index + 1, leaf_hash=append.leaf_hash)


def right(run: str, token: int) -> dict[str, Any]:
    """A request of every method that takes a head, right but for that."""
    who: dict[str, Any] = {"run": run, "request_id": new_id()}
    driving: dict[str, Any] = who | {"token": token, "process": PROCESS}
    decision: dict[str, Any] = {
        "step": "s1",
        "verdict": review_pb.VERDICT_EXECUTED,
        "reason_code": "receipt_found",
        "expected_version": 1,
    }
    downgrade: dict[str, Any] = {
        "tool": "pay",
        "tool_version": "1.0",
        "effect_class": types_pb2.EFFECT_CLASS_READ_ONLY,
        "reason": "mistake",
    }
    return {
        "OpenRun": pb.OpenRunRequest(run=f"{run}-2", request_id=new_id()),
        "AcquireLease": pb.AcquireLeaseRequest(**who, holder="w", process=PROCESS),
        "ReleaseLease": pb.ReleaseLeaseRequest(**who, token=token),
        "BreakLease": pb.BreakLeaseRequest(**who, reason="stuck"),
        "PlanSteps": pb.PlanStepsRequest(**driving, steps=[planned("s2")]),
        "StartStep": start_request(run, "s1", token),
        "CompleteStep": complete_request(run, "s1", token),
        "MarkUnknown": pb.MarkUnknownRequest(
            **who, step="s1", attempt=1, token=token, cause="timeout"
        ),
        "WithdrawStep": pb.WithdrawStepRequest(**driving, step="s1"),
        "AttachEvidence": pb.AttachEvidenceRequest(**who, kind="note", evidence=[payload()]),
        "RequestCancel": pb.RequestCancelRequest(**who),
        "CloseRun": pb.CloseRunRequest(**driving, status=types_pb2.RUN_STATUS_FAILED),
        "Submit": pb.SubmitRequest(
            commands=[
                pb.Command(open_run=pb.OpenRunRequest(run=f"{run}-3", request_id=new_id())),
                pb.Command(open_run=pb.OpenRunRequest(run="_bad", request_id=new_id())),
            ]
        ),
        "Reconcile": review_pb.ReconcileRequest(**who, **decision),
        "AllowDowngrade": review_pb.AllowDowngradeRequest(request_id=new_id(), **downgrade),
        "GetResumeState": pb.GetResumeStateRequest(run=run, token=token, process=PROCESS),
        "GetCheckpoint": log_pb.GetCheckpointRequest(),
    }


def is_rewound(refused: Refusal) -> bool:
    """Whether a call was refused for what its client saw."""
    return (refused.code, refused.reason, refused.durability) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "HISTORY_REWOUND",
        "NOT_COMMITTED",
    ) and refused.facts["may_succeed_later"] == "false"


def test_a_client_goes_on_from_what_it_last_saw(runtime: Calls, run: str) -> None:
    seen = seen_by(runtime.open_run(run).append)
    granted = runtime.acquire(run, last_head_seen=seen)
    token, seen = granted.lease.token, seen_by(granted.append)
    runtime.plan(run, token, [planned("s1")], last_head_seen=seen)
    runtime.start(run, "s1", token, last_head_seen=seen)  # an older head is held as well
    resumed = runtime.call(
        "GetResumeState",
        pb.GetResumeStateRequest(run=run, token=token, process=PROCESS, last_head_seen=seen),
    )
    of_run = types_pb2.LogHead(size=resumed.run.index + 1, leaf_hash=resumed.run.head)
    checkpoint = runtime.call("GetCheckpoint", log_pb.GetCheckpointRequest(last_head_seen=of_run))
    assert checkpoint.size >= of_run.size


@pytest.mark.parametrize("method", right("run", 1))
def test_a_head_that_the_log_does_not_hold_ends_every_call_before_anything_is_done(
    method: str, runtime: Calls, run: str, log_size: LogSize
) -> None:
    token = runtime.driven(run, "s1")
    size = log_size()
    request = right(run, token)[method]
    for claimed, told in (
        (types_pb2.LogHead(size=size + 1_000, leaf_hash=OTHER_LEAF), ""),
        (types_pb2.LogHead(size=1, leaf_hash=OTHER_LEAF), "another entry"),
    ):
        request.last_head_seen.CopyFrom(claimed)
        refused = runtime.refused(method, request)
        assert is_rewound(refused), refused
        assert told in refused.message
        assert refused.facts["seen_size"] == str(claimed.size)
        assert refused.facts["seen_leaf_hash"] == OTHER_LEAF.hex()
        assert int(refused.facts["log_size"]) >= size
        assert len(refused.facts["log_leaf_hash"]) == (64 if claimed.size == 1 else 0)
    assert log_size() == size


def test_a_head_is_no_part_of_a_requests_content(runtime: Calls, run: str) -> None:
    request_id = new_id()
    first = runtime.open_run(run, request_id=request_id)
    again = runtime.open_run(run, request_id=request_id, last_head_seen=seen_by(first.append))
    assert (again.append.index, again.append.leaf_hash) == (
        first.append.index,
        first.append.leaf_hash,
    )


@pytest.mark.parametrize(
    ("head", "path"),
    [
        (types_pb2.LogHead(), "last_head_seen.size"),
        (types_pb2.LogHead(size=-1, leaf_hash=OTHER_LEAF), "last_head_seen.size"),
        (types_pb2.LogHead(size=1), "last_head_seen.leaf_hash"),
        (types_pb2.LogHead(size=1, leaf_hash=b"short"), "last_head_seen.leaf_hash"),
    ],
)
def test_a_malformed_head_is_named(
    runtime: Calls, run: str, head: types_pb2.LogHead, path: str
) -> None:
    for method, request in (
        ("OpenRun", pb.OpenRunRequest(run=run, request_id=new_id(), last_head_seen=head)),
        ("GetCheckpoint", log_pb.GetCheckpointRequest(last_head_seen=head)),
        (
            "Submit",
            pb.SubmitRequest(
                commands=[pb.Command(open_run=pb.OpenRunRequest(run=run, request_id=new_id()))],
                last_head_seen=head,
            ),
        ),
    ):
        refused = runtime.refused(method, request)
        assert (refused.code, refused.field) == (grpc.StatusCode.INVALID_ARGUMENT, path)


def test_a_message_tells_its_head_once_beside_its_commands(
    runtime: Calls, run: str, log_size: LogSize
) -> None:
    seen = seen_by(runtime.open_run(run).append)
    size = log_size()
    inner = pb.OpenRunRequest(run=f"{run}-2", request_id=new_id(), last_head_seen=seen)
    outer = pb.OpenRunRequest(run=f"{run}-3", request_id=new_id())
    answer = runtime.call(
        "Submit",
        pb.SubmitRequest(
            commands=[pb.Command(open_run=inner), pb.Command(open_run=outer)],
            last_head_seen=seen,
        ),
    )
    refused, opened = answer.results
    assert refused.error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert "commands[0].open_run.last_head_seen" in refused.error.message
    assert opened.open_run.append.entries == 1
    assert log_size() == size + 1
