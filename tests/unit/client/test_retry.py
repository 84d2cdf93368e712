"""When the same request is sent again, and what is raised when it is not."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from ledger.client import methods, requests
from ledger.client.errors import (
    CallFailed,
    HeldByAnother,
    HistoryRewound,
    InvalidRequest,
    LedgerUnavailable,
    NotAuthenticated,
    Refused,
)
from ledger.client.failures import Failure, error_of, failure_of_status
from ledger.client.flow import answered
from ledger.client.retry import GiveUp, RetryPolicy, Wait
from ledger.client.words import Durability, Reason
from ledger.v1 import run_service_pb2 as runs
from tests.unit.client.scripted import After, Wire, append, invalid, lost, refused, unavailable

Code = grpc.StatusCode
OPENED = runs.OpenRunResponse(append=append(), run=runs.Run(run="r1"))


def status_of(code: grpc.StatusCode, *details: Message) -> status_pb2.Status:
    status = status_pb2.Status(code=code.value[0], message="words")
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status


def info(reason: str, domain: str = "ledger.v1", **facts: str) -> Message:
    made: Message = error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=facts)
    return made


def retry_info(seconds: int) -> Message:
    made: Message = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=seconds))
    return made


@pytest.mark.parametrize("code", list(Code))
def test_only_the_transient_codes_are_sent_again(code: grpc.StatusCode) -> None:
    transient = Failure(code, "").transient
    assert transient == (code in {Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.ABORTED})


def test_an_overload_is_sent_again_only_with_the_servers_pause() -> None:
    assert not failure_of_status(status_of(Code.RESOURCE_EXHAUSTED)).transient
    asked = failure_of_status(status_of(Code.RESOURCE_EXHAUSTED, info("OVERLOADED"), retry_info(2)))
    assert asked.transient
    after = RetryPolicy().after(asked, tries=1, elapsed_s=0.0, jitter=0.0)
    assert after == Wait(2.0)


def test_what_may_be_committed_is_sent_again_whatever_its_code() -> None:
    said = failure_of_status(status_of(Code.INTERNAL, info("X", durability="MAYBE_COMMITTED")))
    assert said.transient
    foreign = info("X", "other.example", durability="MAYBE_COMMITTED")
    assert not failure_of_status(status_of(Code.INTERNAL, foreign)).transient


@given(
    tries=st.integers(1, 10_000),
    elapsed_s=st.floats(0, 100),
    jitter=st.floats(0, 1, exclude_max=True),
)
def test_no_pause_reaches_beyond_the_deadline(tries: int, elapsed_s: float, jitter: float) -> None:
    policy = RetryPolicy(deadline_s=30.0)
    match policy.after(lost(), tries=tries, elapsed_s=elapsed_s, jitter=jitter):
        case Wait(pause_s):
            assert 0 <= pause_s <= policy.pause_s_max
            assert elapsed_s + pause_s < 30.0
        case GiveUp():
            assert elapsed_s + policy.pause_s_max >= 30.0
    assert 0 <= policy.try_timeout_s(elapsed_s=elapsed_s) <= policy.try_s


def test_a_pause_that_would_pass_the_deadline_is_not_begun() -> None:
    asked = failure_of_status(status_of(Code.RESOURCE_EXHAUSTED, info("OVERLOADED"), retry_info(2)))
    assert RetryPolicy().after(asked, tries=1, elapsed_s=28.1, jitter=0.0) == GiveUp()
    assert RetryPolicy().after(asked, tries=1, elapsed_s=27.9, jitter=0.0) == Wait(2.0)


def test_every_try_sends_the_same_bytes_with_the_same_request_id() -> None:
    wire = Wire()
    request = requests.open_run("r1")
    flow = answered(wire.settings(), methods.OPEN_RUN, request)
    wire.drive(flow, lost(), unavailable(), unavailable(committed="MAYBE_COMMITTED"), OPENED)
    assert {send.body for send in wire.sent} == {request.SerializeToString()}
    assert wire.names() == ["OpenRun"] * 4
    assert wire.pauses_s == [0.025, 0.05, 0.1]


def test_a_definite_error_is_not_sent_again() -> None:
    wire = Wire()
    flow = answered(wire.settings(), methods.OPEN_RUN, requests.open_run("r1"))
    with pytest.raises(InvalidRequest) as caught:
        wire.drive(flow, invalid("run"))
    assert caught.value.violations[0].field == "run"
    assert len(wire.sent) == 1


def test_after_the_deadline_the_last_failure_stands() -> None:
    wire = Wire()
    flow = answered(wire.settings(), methods.OPEN_RUN, requests.open_run("r1"))
    with pytest.raises(LedgerUnavailable) as caught:
        wire.drive(
            flow, After(10, unavailable()), After(10, unavailable()), After(10, unavailable())
        )
    assert caught.value.tries == 3
    assert caught.value.durability is Durability.NOT_COMMITTED
    assert sum(send.timeout_s for send in wire.sent) <= 30.0


def test_one_unclear_try_keeps_the_whole_call_unclear() -> None:
    wire = Wire()
    flow = answered(wire.settings(), methods.OPEN_RUN, requests.open_run("r1"))
    with pytest.raises(LedgerUnavailable) as caught:
        wire.drive(flow, lost(), After(30, unavailable()))
    assert caught.value.durability is Durability.MAYBE_COMMITTED
    assert "only the same request" in str(caught.value)


def test_a_read_that_fails_committed_nothing() -> None:
    wire = Wire()
    flow = answered(wire.settings(), methods.GET_RUN, runs.GetRunRequest(run="r1"))
    with pytest.raises(LedgerUnavailable) as caught:
        wire.drive(flow, After(30, lost()))
    assert caught.value.durability is Durability.NOT_COMMITTED


def test_a_lost_answer_counts_as_maybe_committed_unless_the_server_says_otherwise() -> None:
    assert lost().durability is Durability.MAYBE_COMMITTED
    assert Failure(Code.INTERNAL, "").durability is Durability.MAYBE_COMMITTED
    assert Failure(Code.INVALID_ARGUMENT, "").durability is Durability.NOT_COMMITTED
    assert unavailable().durability is Durability.NOT_COMMITTED


def test_a_refusal_keeps_its_reason_and_facts() -> None:
    failure = refused("WAITING", step="s0", may_succeed_later="true", since="2026-01-01")
    error = error_of(failure, method="StartStep")
    assert isinstance(error, Refused)
    assert (error.reason, error.may_succeed_later) == (Reason.WAITING, True)
    assert error.refusal.step == "s0"
    assert error.refusal.details == {"since": "2026-01-01"}


def test_a_refusal_of_a_newer_server_is_a_refusal_all_the_same() -> None:
    error = error_of(refused("OF_A_NEWER_SERVER"), method="StartStep")
    assert isinstance(error, Refused)
    assert error.reason is Reason.UNSPECIFIED
    assert str(error).startswith("refused, of_a_newer_server: for a reason")


def test_a_refusal_that_names_a_field_is_still_a_refusal() -> None:
    named = error_details_pb2.BadRequest(
        field_violations=[{"field": "arguments", "description": "differ"}]
    )
    facts = info("PLAN_MISMATCH", durability="NOT_COMMITTED")
    failure = failure_of_status(status_of(Code.FAILED_PRECONDITION, facts, named))
    error = error_of(failure, method="PlanSteps")
    assert isinstance(error, Refused)
    assert error.reason is Reason.PLAN_MISMATCH


def test_a_held_lease_says_by_whom_and_until_when() -> None:
    until = "2026-01-01T00:00:00.000000Z"
    error = error_of(
        refused("LEASE_HELD", run="r1", holder="b", until=until), method="AcquireLease"
    )
    assert isinstance(error, HeldByAnother)
    assert error.held.holder == "b"
    assert error.held.until is not None
    assert error.held.until.year == 2026


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure(Code.UNAUTHENTICATED, "no"), NotAuthenticated),
        (Failure(Code.UNIMPLEMENTED, "no"), CallFailed),
        (Failure(Code.INTERNAL, "no", reason="BUG"), CallFailed),
        (Failure(Code.RESOURCE_EXHAUSTED, "larger than max"), CallFailed),
        (Failure(Code.DATA_LOSS, "no", reason="HISTORY_REWOUND"), HistoryRewound),
        (Failure(Code.INVALID_ARGUMENT, "no"), InvalidRequest),
    ],
)
def test_each_failure_has_its_exception(failure: Failure, kind: type[Exception]) -> None:
    assert type(error_of(failure, method="OpenRun")) is kind
