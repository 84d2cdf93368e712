"""Every refusal, failure and fault has a status that says what is safe now."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import error_details_pb2 as details_pb
from google.rpc.status_pb2 import Status

from ledger.core import vocabulary
from ledger.core.errors import Malformed
from ledger.core.refusals import Reason, Refused
from ledger.failures import Failure, FailureKind
from ledger.service import statuses, words
from ledger.service.faults import LimitPassed
from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import types_pb2
from ledger.views import Availability


def info_of(status: Status) -> details_pb.ErrorInfo:
    """Its ErrorInfo, which comes first."""
    info = details_pb.ErrorInfo()
    assert status.details[0].Unpack(info)
    return info


@pytest.mark.parametrize("reason", Reason)
def test_a_refusal_says_its_reason_and_that_nothing_was_committed(reason: Reason) -> None:
    refused = Refused(reason, "What happened.", step="s", run="r", key="k", details={"x": "y"})
    status = statuses.refusal_status(refused)
    info = info_of(status)
    assert (info.reason, info.domain) == (reason.name, "ledger.v1")
    assert dict(info.metadata) == {
        "durability": "NOT_COMMITTED",
        "may_succeed_later": str(refused.may_succeed_later).lower(),
        "step": "s",
        "run": "r",
        "key": "k",
        "x": "y",
    }
    assert status.message == "What happened."


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.RUN_EXISTS, grpc.StatusCode.ALREADY_EXISTS),
        (Reason.REQUEST_REUSED, grpc.StatusCode.ALREADY_EXISTS),
        (Reason.RUN_NOT_FOUND, grpc.StatusCode.NOT_FOUND),
        (Reason.ROLE_MISSING, grpc.StatusCode.PERMISSION_DENIED),
        (Reason.SELF_RECONCILE, grpc.StatusCode.PERMISSION_DENIED),
        (Reason.LIMIT_EXCEEDED, grpc.StatusCode.INVALID_ARGUMENT),
        (Reason.STALE_LEASE, grpc.StatusCode.FAILED_PRECONDITION),
    ],
)
def test_a_reason_has_its_code(reason: Reason, code: grpc.StatusCode) -> None:
    assert statuses.code_of(statuses.refusal_status(Refused(reason, "m"))) is code


@pytest.mark.parametrize("kind", FailureKind)
def test_only_an_unclear_commit_says_maybe(kind: FailureKind) -> None:
    status = statuses.failure_status(Failure(kind))
    maybe = kind is FailureKind.MAYBE_COMMITTED
    assert info_of(status).metadata["durability"] == (
        "MAYBE_COMMITTED" if maybe else "NOT_COMMITTED"
    )
    assert info_of(status).reason == kind.value


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (FailureKind.OVERLOADED, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (FailureKind.DEADLINE_PASSED, grpc.StatusCode.DEADLINE_EXCEEDED),
        (FailureKind.STORE_UNAVAILABLE, grpc.StatusCode.UNAVAILABLE),
        (FailureKind.MAYBE_COMMITTED, grpc.StatusCode.UNAVAILABLE),
        (FailureKind.DRAINING, grpc.StatusCode.UNAVAILABLE),
        (FailureKind.HISTORY_REWOUND, grpc.StatusCode.DATA_LOSS),
    ],
)
def test_a_failure_has_its_code(kind: FailureKind, code: grpc.StatusCode) -> None:
    assert statuses.code_of(statuses.failure_status(Failure(kind))) is code


def test_a_failure_says_when_to_ask_again() -> None:
    status = statuses.failure_status(Failure(FailureKind.OVERLOADED, retry_after_ms=1_250))
    retry = details_pb.RetryInfo()
    assert status.details[1].Unpack(retry)
    assert (retry.retry_delay.seconds, retry.retry_delay.nanos) == (1, 250_000_000)
    assert len(statuses.failure_status(Failure(FailureKind.OVERLOADED)).details) == 1


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Malformed("steps[3].step", "is missing"), "INVALID_FIELD"),
        (LimitPassed("steps[3].step", "is too much"), "LIMIT_EXCEEDED"),
    ],
)
def test_a_malformed_request_names_its_field(fault: Malformed, reason: str) -> None:
    status = statuses.malformed_status(fault)
    assert statuses.code_of(status) is grpc.StatusCode.INVALID_ARGUMENT
    assert statuses.reason_of(status) == reason
    bad = details_pb.BadRequest()
    assert status.details[1].Unpack(bad)
    (violation,) = bad.field_violations
    assert (violation.field, violation.description) == (fault.path, fault.reason)


def test_a_refusal_that_names_a_field_is_a_bad_request() -> None:
    refused = Refused(Reason.LIMIT_EXCEEDED, "Too long.", details={"field": "labels"})
    bad = details_pb.BadRequest()
    assert statuses.refusal_status(refused).details[1].Unpack(bad)
    assert bad.field_violations[0].field == "labels"


def test_the_words_of_the_core_are_those_of_the_contract() -> None:
    assert {reason.name: reason.value for reason in Reason} == words.REASON
    for enum, numbers in (
        (vocabulary.StepState, words.STATE),
        (vocabulary.Outcome, words.OUTCOME),
        (vocabulary.EffectClass, words.EFFECT_CLASS),
        (vocabulary.RunStatus, words.STATUS),
        (vocabulary.Disposition, words.DISPOSITION),
        (Availability, words.AVAILABILITY),
    ):
        assert {word.value for word in enum} == set(numbers)
    assert words.DISPOSITION["LATE"] == pb.DISPOSITION_LATE
    assert words.STATE["UNKNOWN"] == types_pb2.STEP_STATE_UNKNOWN
