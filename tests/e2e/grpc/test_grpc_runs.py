"""The life of a run over the wire."""

from __future__ import annotations

from collections.abc import Callable

import grpc
from google.protobuf.duration_pb2 import Duration

from ledger.v1 import review_service_pb2 as review_pb
from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import types_pb2
from tests.support.calls import (
    PROCESS,
    Calls,
    complete_request,
    new_id,
    payload,
    planned,
    refusal_of,
    start_request,
)


def close_request(run: str, token: int, **fields: object) -> pb.CloseRunRequest:
    """A CloseRun that is right by default."""
    request = pb.CloseRunRequest(
        request_id=new_id(),
        run=run,
        token=token,
        process=PROCESS,
        status=types_pb2.RUN_STATUS_COMPLETED,
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def test_a_run_is_opened_driven_and_closed(runtime: Calls, run: str) -> None:
    opened = runtime.open_run(run, labels={"team": "billing"}, initiator="user-7")
    assert opened.append.entries == 1
    assert opened.append.tree_size == opened.append.index + 1
    assert len(opened.append.leaf_hash) == 32
    assert (opened.run.run, opened.run.opened_by, opened.run.version) == (run, "runtime", 0)
    assert dict(opened.run.labels) == {"team": "billing"}

    lease = runtime.acquire(run, ttl=Duration(seconds=60)).lease
    assert (lease.token, lease.holder, lease.principal, lease.live) == (
        1,
        "worker",
        "runtime",
        True,
    )
    assert 58 <= lease.remaining.seconds <= 60

    plan = runtime.plan(run, lease.token, [planned("s1", key=b"k-1"), planned("s2")])
    assert plan.append.entries == 2
    assert plan.keys[0] == "k-1"
    assert plan.keys[1].startswith("d:")

    for step in ("s1", "s2"):
        started = runtime.start(run, step, lease.token)
        assert started.WhichOneof("directive") == "execute"
        assert (started.execute.attempt, started.execute.token) == (1, lease.token)
        assert 58 <= started.execute.remaining.seconds <= 60
        completed = runtime.complete(run, step, lease.token)
        assert completed.disposition == pb.DISPOSITION_RECORDED
        assert completed.state == types_pb2.STEP_STATE_SUCCEEDED

    closed = runtime.call("CloseRun", close_request(run, lease.token, reason="done"))
    assert closed.status == types_pb2.RUN_STATUS_COMPLETED
    found = runtime.call("GetRun", pb.GetRunRequest(run=run))
    assert found.run.status == types_pb2.RUN_STATUS_COMPLETED
    assert found.run.head == closed.append.leaf_hash
    assert dict(found.run.step_counts) == {"SUCCEEDED": 2}
    assert [step.step for step in found.steps] == ["s1", "s2"]
    assert runtime.refused("CloseRun", close_request(run, lease.token)).reason == "RUN_CLOSED"


def test_the_same_request_again_gets_the_first_answer(runtime: Calls, run: str) -> None:
    request = pb.OpenRunRequest(request_id=new_id(), run=run)
    first, second = runtime.call("OpenRun", request), runtime.call("OpenRun", request)
    assert second.append.index == first.append.index
    assert second.append.leaf_hash == first.append.leaf_hash
    other = pb.OpenRunRequest(request_id=request.request_id, run=f"{run}-2")
    reused = runtime.refused("OpenRun", other)
    assert (reused.code, reused.reason) == (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_REUSED")


def test_an_existing_run_is_answered_or_refused_by_its_content(runtime: Calls, run: str) -> None:
    runtime.open_run(run, initiator="user-7")
    again = runtime.open_run(run, initiator="user-7")
    assert not again.HasField("append")
    assert again.run.initiator == "user-7"
    other = pb.OpenRunRequest(request_id=new_id(), run=run, initiator="user-8")
    refused = runtime.refused("OpenRun", other)
    assert (refused.code, refused.reason) == (grpc.StatusCode.ALREADY_EXISTS, "RUN_EXISTS")
    assert refused.durability == "NOT_COMMITTED"


def test_a_settled_step_is_replayed_with_its_result(runtime: Calls, run: str) -> None:
    token = runtime.driven(run, "s1")
    runtime.start(run, "s1", token)
    runtime.complete(run, "s1", token, result=payload(b'{"receipt":7}'))
    replay = runtime.start(run, "s1", token).replay
    assert replay.outcome == types_pb2.OUTCOME_SUCCEEDED
    assert replay.result.availability == types_pb2.AVAILABILITY_PRESENT
    assert replay.result.content == b'{"receipt":7}'
    assert replay.result.media_type == "application/json"


def test_a_refused_start_is_a_directive_and_no_error(runtime: Calls, run: str) -> None:
    token = runtime.driven(run)
    runtime.plan(run, token, [planned("s1"), planned("s2", after=["s1"])])
    answer = runtime.start(run, "s2", token)
    assert answer.WhichOneof("directive") == "refused"
    assert answer.refused.reason == types_pb2.REASON_WAITING
    assert answer.refused.step == "s1"
    assert answer.refused.may_succeed_later
    assert not answer.HasField("append")


def test_a_second_driver_is_told_who_holds_the_run(runtime: Calls, run: str) -> None:
    runtime.driven(run)
    request = pb.AcquireLeaseRequest(
        request_id=new_id(), run=run, holder="other", process="another-process-01"
    )
    refused = runtime.refused("AcquireLease", request)
    assert refused.reason == "LEASE_HELD"
    assert refused.facts["may_succeed_later"] == "true"


def test_a_lease_is_renewed_and_given_back(runtime: Calls, run: str) -> None:
    token = runtime.driven(run)
    renew = pb.RenewLeaseRequest(run=run, token=token, process=PROCESS, ttl=Duration(seconds=3_000))
    renewed = runtime.call("RenewLease", renew)
    assert 2_990 <= renewed.lease.remaining.seconds <= 3_000
    runtime.call("ReleaseLease", pb.ReleaseLeaseRequest(request_id=new_id(), run=run, token=token))
    assert runtime.refused("RenewLease", renew).reason == "LEASE_EXPIRED"


def test_an_unknown_outcome_is_listed_and_settled_by_a_reviewer(
    runtime: Calls, reviewer: Calls, run: str
) -> None:
    token = runtime.driven(run, "s1")
    runtime.start(run, "s1", token)
    marked = runtime.call(
        "MarkUnknown",
        pb.MarkUnknownRequest(
            request_id=new_id(), run=run, step="s1", attempt=1, token=token, cause="timeout"
        ),
    )
    assert marked.state == types_pb2.STEP_STATE_UNKNOWN
    (listed,) = reviewer.call("ListUnknowns", review_pb.ListUnknownsRequest(run=run)).unknowns
    assert listed == marked.unknown
    decision = review_pb.ReconcileRequest(
        request_id=new_id(),
        run=listed.run,
        step=listed.step,
        verdict=review_pb.VERDICT_EXECUTED,
        reason_code="receipt_found",
        reason=payload(b"seen in the shop"),
        expected_version=listed.expected_version,
        result=payload(b'{"receipt":7}'),
    )
    assert runtime.refused("Reconcile", decision).code is grpc.StatusCode.PERMISSION_DENIED
    settled = reviewer.call("Reconcile", decision)
    assert settled.state == types_pb2.STEP_STATE_RECONCILED_EXECUTED
    assert not reviewer.call("ListUnknowns", review_pb.ListUnknownsRequest(run=run)).unknowns
    replay = runtime.start(run, "s1", token).replay
    assert replay.state == types_pb2.STEP_STATE_RECONCILED_EXECUTED


def test_a_result_by_decision_is_the_runs_own_and_forbidden_to_others_without_read(
    runtime: Calls, reviewer: Calls, run: str
) -> None:
    key = f"{run}-key".encode()
    token = runtime.driven(run)
    runtime.plan(run, token, [planned("s1", key=key)])
    runtime.start(run, "s1", token)
    runtime.call(
        "MarkUnknown",
        pb.MarkUnknownRequest(
            request_id=new_id(), run=run, step="s1", attempt=1, token=token, cause="timeout"
        ),
    )
    (listed,) = reviewer.call("ListUnknowns", review_pb.ListUnknownsRequest(run=run)).unknowns
    decision = review_pb.ReconcileRequest(
        request_id=new_id(),
        run=run,
        step="s1",
        verdict=review_pb.VERDICT_EXECUTED,
        reason_code="receipt_found",
        expected_version=listed.expected_version,
        result=payload(b"private"),
    )
    reviewer.call("Reconcile", decision)
    own = runtime.start(run, "s1", token).replay.result
    assert (own.availability, own.content) == (types_pb2.AVAILABILITY_PRESENT, b"private")
    other = f"{run}-other"
    other_token = runtime.driven(other)
    runtime.plan(other, other_token, [planned("s1", key=key)])
    foreign = runtime.start(other, "s1", other_token).replay.result
    assert (foreign.availability, foreign.content) == (types_pb2.AVAILABILITY_FORBIDDEN, b"")


def test_cancelling_is_told_with_every_later_answer(runtime: Calls, run: str) -> None:
    token = runtime.driven(run, "s1", "s2")
    runtime.start(run, "s1", token)
    runtime.call("RequestCancel", pb.RequestCancelRequest(request_id=new_id(), run=run))
    assert runtime.complete(run, "s1", token).cancel_requested
    refused = runtime.start(run, "s2", token)
    assert refused.refused.reason == types_pb2.REASON_CANCELLED


def test_resuming_gives_exact_arguments_results_and_what_is_ready(runtime: Calls, run: str) -> None:
    token = runtime.driven(run)
    arguments = b'{"amount":1e2, "note":"\xc3\xbc"}'
    runtime.plan(
        run,
        token,
        [
            planned("s1", arguments=payload(arguments)),
            planned("s2", after=["s1"]),
            planned("s3", after=["s2"]),
        ],
    )
    runtime.start(run, "s1", token)
    runtime.complete(run, "s1", token, result=payload(b'{"id":9}'))
    request = pb.GetResumeStateRequest(run=run, token=token, process=PROCESS)
    resumed = runtime.call("GetResumeState", request)
    first, second, third = resumed.steps
    assert first.arguments.content == arguments
    assert first.result.content == b'{"id":9}'
    assert (second.ready, second.waiting_for) == (True, "")
    assert (third.ready, third.waiting_for) == (False, "s2")
    again = runtime.call("GetResumeState", request)
    assert list(again.steps) == list(resumed.steps)
    wrong = pb.GetResumeStateRequest(run=run, token=token, process="another-process-01")
    assert runtime.refused("GetResumeState", wrong).reason == "LEASE_OF_ANOTHER_PROCESS"
    stale = pb.GetResumeStateRequest(run=run, token=token + 1, process=PROCESS)
    assert runtime.refused("GetResumeState", stale).reason == "STALE_LEASE"


def test_many_commands_in_one_message_are_answered_each(runtime: Calls, run: str) -> None:
    token = runtime.driven(run, "s1")
    commands = [
        pb.Command(start_step=start_request(run, "s1", token)),
        pb.Command(start_step=start_request(run, "missing", token)),
        pb.Command(complete_step=complete_request(run, "s1", token, outcome=99)),
        pb.Command(open_run=pb.OpenRunRequest(request_id=new_id(), run=f"{run}-2")),
        pb.Command(close_run=close_request(f"{run}-3", 1)),
        pb.Command(complete_step=complete_request(run, "s1", token)),
    ]
    results = runtime.call("Submit", pb.SubmitRequest(commands=commands)).results
    kinds = [result.WhichOneof("result") for result in results]
    assert kinds == [
        "start_step",
        "start_step",
        "error",
        "open_run",
        "error",
        "complete_step",
    ]
    assert results[0].start_step.HasField("execute")
    assert results[1].start_step.refused.reason == types_pb2.REASON_STEP_NOT_PLANNED
    malformed = refusal_of(results[2].error)
    assert malformed.code is grpc.StatusCode.INVALID_ARGUMENT
    assert malformed.field == "commands[2].complete_step.outcome"
    assert results[3].open_run.run.run == f"{run}-2"
    assert refusal_of(results[4].error).reason == "RUN_NOT_FOUND"
    assert results[5].complete_step.state == types_pb2.STEP_STATE_SUCCEEDED


def test_a_submit_of_nothing_right_appends_nothing(
    runtime: Calls, log_size: Callable[[], int]
) -> None:
    before = log_size()
    commands = [pb.Command(), pb.Command(open_run=pb.OpenRunRequest(run="run-1"))]
    results = runtime.call("Submit", pb.SubmitRequest(commands=commands)).results
    assert [refusal_of(result.error).field for result in results] == [
        "commands[0].command",
        "commands[1].open_run.request_id",
    ]
    assert log_size() == before


def test_results_too_large_for_one_answer_are_sent_alone(runtime: Calls, run: str) -> None:
    steps = [f"s{n}" for n in range(4)]
    token = runtime.driven(run, *steps)
    for step in steps:
        runtime.start(run, step, token)
        runtime.complete(run, step, token, result=payload(b"x" * (1 << 20)))
    commands = [pb.Command(start_step=start_request(run, step, token)) for step in steps]
    results = runtime.call("Submit", pb.SubmitRequest(commands=commands)).results
    assert all(result.start_step.replay.result.content for result in results[:3])
    refused = refusal_of(results[3].error)
    assert (refused.reason, refused.durability) == ("ANSWER_TOO_LARGE", "MAYBE_COMMITTED")
    alone = runtime.call("StartStep", commands[3].start_step)
    assert len(alone.replay.result.content) == 1 << 20
