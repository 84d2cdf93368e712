"""The directive decides whether a body runs, and leaving it records what that proves."""

from __future__ import annotations

import asyncio

import pytest

from ledger.client.effect_core import EffectCore
from ledger.client.errors import (
    AlreadyReported,
    AuditNotRecorded,
    DeadlinePassed,
    DefinitelyFailed,
    DirectiveNotUnderstood,
    HeldByAnother,
    InvalidRequest,
    LedgerUnavailable,
    NotExecuting,
    NothingSent,
    OutcomeNotReported,
    OutcomeUnknown,
    Refused,
    ReportedLate,
    ResultNotStorable,
    ResultUnavailable,
)
from ledger.client.flow import Flow
from ledger.client.payloads import OMITTED_TYPE, Payload
from ledger.client.run_core import RunCore
from ledger.client.words import Disposition, Durability, Outcome, StepState
from ledger.v1 import run_service_pb2 as runs
from ledger.v1 import types_pb2 as types
from tests.unit.client.scripted import (
    After,
    Answer,
    Wire,
    append,
    completed,
    entered,
    executing,
    invalid,
    lost,
    marked,
    refused,
    unavailable,
)


def starting(
    core: RunCore, *, nothing_sent: tuple[type[BaseException], ...] = ()
) -> Flow[EffectCore]:
    return core.start(
        "s1", version="1", timeout_s=None, best_effort=False, nothing_sent=nothing_sent
    )


def begun(
    wire: Wire, answer: Answer | None = None, *, nothing_sent: tuple[type[BaseException], ...] = ()
) -> EffectCore:
    core = entered(wire)
    return wire.drive(starting(core, nothing_sent=nothing_sent), answer or executing())


def replaying(
    outcome: str = "SUCCEEDED", *, content: bytes | None = b'{"ok":1}'
) -> runs.StartStepResponse:
    stored = types.StoredPayload(availability=types.AVAILABILITY_NONE)
    if content is not None:
        stored = types.StoredPayload(availability=types.AVAILABILITY_PRESENT, content=content)
    return runs.StartStepResponse(
        replay=runs.Replay(
            outcome=types.Outcome.Value(f"OUTCOME_{outcome}"), result=stored, run="r0", step="s0"
        )
    )


def test_execute_gives_key_token_and_attempt() -> None:
    effect = begun(Wire())
    permission = effect.require_executing()
    assert (permission.key, permission.token, permission.attempt) == ("d:k", 3, 1)
    assert effect.executing
    assert effect.remaining_s == 60.0


def test_a_replay_gives_the_stored_result_and_no_key() -> None:
    effect = begun(Wire(), replaying())
    assert not effect.executing
    assert effect.replayed_value() == {"ok": 1}
    with pytest.raises(NotExecuting, match="Do not run the tool"):
        effect.require_executing()
    with pytest.raises(NotExecuting):
        effect.complete(Outcome.SUCCEEDED)


def test_leaving_a_replay_records_nothing() -> None:
    wire = Wire()
    effect = begun(wire, replaying())
    wire.drive(effect.leave(None))
    wire.drive(effect.leave(ValueError()))
    assert wire.names()[-1] == "StartStep"


def test_a_replayed_failure_is_raised_again_with_its_result() -> None:
    with pytest.raises(DefinitelyFailed) as caught:
        begun(Wire(), replaying("FAILED", content=b'"no funds"')).replayed_value()
    assert caught.value.result == "no funds"


@pytest.mark.parametrize("stored", [None, types.StoredPayload()])
def test_a_replay_without_its_result_raises(stored: types.StoredPayload | None) -> None:
    answer = replaying(content=None)
    if stored is not None:
        answer.replay.result.CopyFrom(stored)
    with pytest.raises(ResultUnavailable, match="NONE"):
        begun(Wire(), answer).replayed_value()


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (runs.StartStepResponse(held=runs.Held(step="s0", holder="b")), HeldByAnother, "'b'"),
        (
            runs.StartStepResponse(unknown=types.UnknownStep(step="s0", expected_version=12)),
            OutcomeUnknown,
            "expected_version 12",
        ),
        (
            runs.StartStepResponse(
                refused=types.Refusal(reason=types.REASON_CANCELLED, message="Asked to stop.")
            ),
            Refused,
            "Asked to stop.",
        ),
        (runs.StartStepResponse(), DirectiveNotUnderstood, "not run"),
        (refused("LEASE_EXPIRED"), Refused, "lease_expired"),
    ],
)
def test_every_other_directive_raises_before_the_body(
    answer: Answer, kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says):
        begun(Wire(), answer)


def test_without_an_acknowledged_execute_there_is_no_body() -> None:
    with pytest.raises(LedgerUnavailable, match="Nothing may be executed"):
        begun(Wire(), After(31, lost()))


def test_the_deadline_counts_from_before_the_answered_try_was_sent() -> None:
    wire = Wire()
    core = entered(wire)
    sent_at_s = wire.now_s
    effect = wire.drive(starting(core), After(9, lost()), After(4, executing(remaining_s=60)))
    pause_s = wire.pauses_s[0]
    assert effect.deadline_at_s == sent_at_s + 9 + pause_s + 60
    assert effect.remaining_s == pytest.approx(56)


def test_an_execute_that_arrives_after_its_deadline_runs_nothing_and_says_so() -> None:
    wire = Wire()
    core = entered(wire)
    with pytest.raises(DeadlinePassed):
        wire.drive(starting(core), After(9, executing(remaining_s=9)), completed("NO_EFFECT"))
    assert wire.last(runs.CompleteStepRequest).outcome == types.OUTCOME_NO_EFFECT


def test_the_deadline_is_checked_again_directly_before_the_tool() -> None:
    wire = Wire()
    effect = begun(wire)
    wire.now_s += 60
    with pytest.raises(DeadlinePassed):
        effect.require_in_time()


def test_a_success_is_reported_under_the_attempts_own_token() -> None:
    wire = Wire()
    effect = begun(wire)
    report = wire.drive(effect.complete(Outcome.SUCCEEDED, result={"ok": True}), completed())
    sent = wire.last(runs.CompleteStepRequest)
    assert (sent.token, sent.attempt, sent.result.content) == (3, 1, b'{"ok":true}')
    assert report.state is StepState.SUCCEEDED
    wire.drive(effect.leave(None))
    assert wire.names()[-1] == "CompleteStep"


def test_an_attempt_has_one_report() -> None:
    wire = Wire()
    effect = begun(wire)
    wire.drive(effect.complete(Outcome.SUCCEEDED), completed())
    with pytest.raises(AlreadyReported):
        effect.complete(Outcome.FAILED)
    with pytest.raises(AlreadyReported):
        effect.mark_unknown("timeout")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ValueError("boom"), "exception"),
        (TimeoutError(), "timeout"),
        (KeyboardInterrupt(), "exception"),
        (SystemExit(1), "exception"),
        (asyncio.CancelledError(), "exception"),
        (GeneratorExit(), "exception"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_leaving_by_an_exception_records_a_write_as_unknown(
    error: BaseException, cause: str
) -> None:
    wire = Wire()
    effect = begun(wire)
    wire.drive(effect.leave(error), marked())
    sent = wire.last(runs.MarkUnknownRequest)
    assert sent.cause == cause
    assert type(error).__name__.encode() in sent.note.content


def test_leaving_by_an_exception_ends_a_read_as_failed() -> None:
    wire = Wire()
    effect = begun(wire, executing(key=""))
    wire.drive(effect.leave(ValueError("boom")), completed("FAILED"))
    assert wire.last(runs.CompleteStepRequest).outcome == types.OUTCOME_FAILED


@pytest.mark.parametrize("error", [NothingSent(), ConnectionRefusedError()])
def test_what_proves_that_nothing_was_sent_records_no_effect(error: Exception) -> None:
    wire = Wire()
    effect = begun(wire, nothing_sent=(ConnectionRefusedError,))
    wire.drive(effect.leave(error), completed("NO_EFFECT"))
    assert wire.last(runs.CompleteStepRequest).outcome == types.OUTCOME_NO_EFFECT


def test_a_definite_failure_is_recorded_with_its_result() -> None:
    wire = Wire()
    effect = begun(wire)
    wire.drive(effect.leave(DefinitelyFailed("no", result={"code": 4})), completed("FAILED"))
    sent = wire.last(runs.CompleteStepRequest)
    assert (sent.outcome, sent.result.content) == (types.OUTCOME_FAILED, b'{"code":4}')


def test_a_definite_failure_is_recorded_even_if_its_result_cannot_be() -> None:
    wire = Wire()
    effect = begun(wire)
    wire.drive(effect.leave(DefinitelyFailed("no", result=object())), completed("FAILED"))
    assert wire.last(runs.CompleteStepRequest).result.media_type == OMITTED_TYPE


def test_a_body_that_ends_without_an_outcome_is_unknown_and_an_error() -> None:
    wire = Wire()
    effect = begun(wire)
    with pytest.raises(OutcomeNotReported):
        wire.drive(effect.leave(None), marked())
    assert wire.last(runs.MarkUnknownRequest).cause == "not_reported"


@pytest.mark.parametrize("result", [object(), Payload(bytes((1 << 20) + 1))])
def test_a_result_that_cannot_be_stored_never_loses_the_outcome(result: object) -> None:
    wire = Wire()
    effect = begun(wire)
    with pytest.raises(ResultNotStorable) as caught:
        effect.complete(Outcome.SUCCEEDED, result=result)  # type: ignore[arg-type]
    assert wire.names()[-1] == "StartStep"
    wire.drive(effect.leave(caught.value), completed())
    sent = wire.last(runs.CompleteStepRequest)
    assert sent.outcome == types.OUTCOME_SUCCEEDED
    assert sent.result.media_type == OMITTED_TYPE


def test_a_result_beyond_the_servers_own_limit_can_be_reported_smaller() -> None:
    wire = Wire()
    effect = begun(wire)
    with pytest.raises(ResultNotStorable):
        wire.drive(effect.complete(Outcome.SUCCEEDED, result="x" * 99), invalid("result.content"))
    wire.drive(effect.complete(Outcome.SUCCEEDED, result="x"), completed())
    first, second = (runs.CompleteStepRequest.FromString(s.body) for s in wire.sent[-2:])
    assert first.request_id != second.request_id


def test_an_unacknowledged_report_raises_and_can_be_sent_again_as_it_was() -> None:
    wire = Wire()
    effect = begun(wire)
    with pytest.raises(AuditNotRecorded) as caught:
        wire.drive(effect.complete(Outcome.SUCCEEDED, result=1), lost(), After(31, unavailable()))
    assert caught.value.durability is Durability.MAYBE_COMMITTED
    wire.drive(effect.leave(caught.value))
    wire.drive(effect.resend(), completed())
    assert len({send.body for send in wire.sent[-3:]}) == 1


def test_a_report_the_ledger_refuses_is_not_recorded_either() -> None:
    wire = Wire()
    effect = begun(wire)
    with pytest.raises(AuditNotRecorded) as caught:
        wire.drive(effect.complete(Outcome.SUCCEEDED), refused("NO_SUCH_ATTEMPT"))
    assert isinstance(caught.value.__cause__, Refused)


def test_a_report_cut_off_by_an_interrupt_is_sent_once_more_on_leaving() -> None:
    wire = Wire()
    effect = begun(wire)
    cut_off = effect.complete(Outcome.SUCCEEDED, result=1)
    next(cut_off)
    cut_off.close()
    wire.drive(effect.leave(KeyboardInterrupt()), completed())
    assert wire.last(runs.CompleteStepRequest).result.content == b"1"


def test_an_unknown_that_cannot_be_recorded_leaves_the_bodys_error_in_charge() -> None:
    wire = Wire()
    effect = begun(wire)
    error = ValueError("boom")
    wire.drive(effect.leave(error), After(31, unavailable()))
    assert "not acknowledged" in error.__notes__[0]


def test_a_late_report_is_said_to_be_evidence_only() -> None:
    wire = Wire()
    effect = begun(wire)
    late = completed("RECONCILED_NOT_EXECUTED", "LATE", evidence=True)
    with pytest.raises(ReportedLate, match="kept as evidence") as caught:
        wire.drive(effect.complete(Outcome.SUCCEEDED), late)
    assert caught.value.report.disposition is Disposition.LATE


def test_a_failure_after_an_unsettled_attempt_leaves_the_step_unknown() -> None:
    wire = Wire()
    effect = begun(wire)
    with pytest.raises(OutcomeUnknown) as caught:
        wire.drive(effect.complete(Outcome.FAILED), completed("UNKNOWN"))
    assert caught.value.unknown.expected_version == 9


def test_a_disposition_of_a_newer_server_is_not_taken_for_recorded() -> None:
    wire = Wire()
    effect = begun(wire)
    with pytest.raises(AuditNotRecorded):
        wire.drive(effect.complete(Outcome.SUCCEEDED), runs.CompleteStepResponse(append=append()))


def test_a_step_that_is_not_planned_here_needs_its_version() -> None:
    core = entered(Wire())
    with pytest.raises(InvalidRequest, match="tool_version"):
        next(core.start("s9", version=None, timeout_s=None, best_effort=False, nothing_sent=()))
