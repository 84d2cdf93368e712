"""A driven run: lease, plan, gaps, resume, and how it ends."""

from __future__ import annotations

import os

import pytest

from ledger.client import process
from ledger.client.errors import (
    AlreadyReported,
    AuditNotRecorded,
    ForkedProcess,
    HeldByAnother,
    InvalidRequest,
    LedgerError,
    LedgerUnavailable,
    OutcomeUnknown,
    Refused,
    RunNotDriven,
)
from ledger.client.lease_core import RunOptions
from ledger.client.requests import Step
from ledger.client.run_core import RunCore
from ledger.client.values import UnknownStep
from ledger.client.words import EffectClass, Outcome, RunStatus
from ledger.v1 import run_service_pb2 as runs
from ledger.v1 import types_pb2 as types
from tests.unit.client.scripted import (
    After,
    Wire,
    append,
    completed,
    entered,
    executing,
    lease,
    lost,
    refused,
    unavailable,
)

READ = Step("s1", "lookup", "1", effect_class=EffectClass.READ_ONLY)
PLANNED = runs.PlanStepsResponse(append=append(), keys=["d:k"])
CLOSED = runs.CloseRunResponse(append=append(), status=types.RUN_STATUS_COMPLETED)
RELEASED = runs.ReleaseLeaseResponse(append=append())
GAP = runs.AttachEvidenceResponse(append=append())


def unrecorded(wire: Wire, core: RunCore) -> AuditNotRecorded:
    effect = wire.drive(
        core.start("s1", version="1", timeout_s=None, best_effort=False, nothing_sent=()),
        executing(),
    )
    with pytest.raises(AuditNotRecorded) as caught:
        wire.drive(effect.complete(Outcome.SUCCEEDED), After(31, lost()))
    return caught.value


def test_entering_opens_the_run_and_takes_the_lease_for_this_process() -> None:
    wire = Wire()
    core = entered(wire)
    assert wire.names() == ["OpenRun", "AcquireLease"]
    asked = wire.last(runs.AcquireLeaseRequest)
    assert (asked.process, asked.holder) == (process.current().nonce, "shop")
    assert core.lease.require_driving().token == 3
    assert core.lease.remaining_s == 30.0


def test_a_held_lease_is_waited_for_with_the_same_request() -> None:
    wire = Wire()
    held = refused("LEASE_HELD", run="r1", holder="other")
    options = RunOptions("r1", "shop", 30.0, 5.0, None)
    core = RunCore(wire.settings(), options)
    granted = runs.AcquireLeaseResponse(append=append(), lease=lease())
    state = runs.GetResumeStateResponse(run=runs.Run(run="r1"))
    wire.drive(core.enter(), held, held, granted, state)
    assert len({send.body for send in wire.sent[:3]}) == 1
    assert wire.pauses_s == [0.5, 0.5]


def test_a_lease_held_beyond_the_wait_raises_with_its_holder() -> None:
    wire = Wire()
    core = RunCore(wire.settings(), RunOptions("r1", "shop", 30.0, 0.0, None))
    with pytest.raises(HeldByAnother, match="'other'"):
        wire.drive(core.enter(), refused("LEASE_HELD", run="r1", holder="other"))
    assert core.lease.driving is None


def test_a_clean_end_closes_the_run_completed() -> None:
    wire = Wire()
    core = entered(wire)
    wire.drive(core.leave(None), CLOSED)
    assert wire.last(runs.CloseRunRequest).status == types.RUN_STATUS_COMPLETED
    with pytest.raises(RunNotDriven):
        core.lease.require_driving()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError(), "exception"),
        (KeyboardInterrupt(), "interrupted"),
        (OutcomeUnknown(UnknownStep("r1", "s1", 4)), "outcome_unknown"),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_an_exception_gives_the_lease_back_and_leaves_the_run_open(
    error: BaseException, reason: str
) -> None:
    wire = Wire()
    wire.drive(entered(wire).leave(error), RELEASED)
    assert wire.names()[-1] == "ReleaseLease"
    assert wire.last(runs.ReleaseLeaseRequest).stop_reason == reason


def test_a_lease_that_cannot_be_given_back_does_not_hide_the_error() -> None:
    wire = Wire()
    error = ValueError("boom")
    wire.drive(entered(wire).leave(error), After(6, lost()))
    assert "lease was not given back" in error.__notes__[0]


def test_a_run_with_an_unrecorded_outcome_is_never_closed_completed() -> None:
    wire = Wire()
    core = entered(wire)
    first = unrecorded(wire, core)
    with pytest.raises(AuditNotRecorded) as caught:
        wire.drive(core.leave(None), RELEASED)
    assert caught.value is first
    assert wire.names()[-1] == "ReleaseLease"
    assert wire.last(runs.ReleaseLeaseRequest).stop_reason == "audit_not_recorded"


def test_a_run_whose_report_was_sent_again_closes_completed() -> None:
    wire = Wire()
    core = entered(wire)
    effect = wire.drive(
        core.start("s1", version="1", timeout_s=None, best_effort=False, nothing_sent=()),
        executing(),
    )
    with pytest.raises(AuditNotRecorded):
        wire.drive(effect.complete(Outcome.SUCCEEDED), After(31, lost()))
    wire.drive(effect.resend(), completed())
    wire.drive(core.leave(None), CLOSED)


def test_a_refused_close_gives_the_lease_back_and_raises() -> None:
    wire = Wire()
    core = entered(wire)
    with pytest.raises(Refused, match="step_unknown"):
        wire.drive(core.leave(None), refused("STEP_UNKNOWN"), RELEASED)
    assert wire.last(runs.ReleaseLeaseRequest).stop_reason == "refused:step_unknown"


def test_a_run_closed_by_hand_is_left_alone_at_the_end() -> None:
    wire = Wire()
    core = entered(wire)
    wire.drive(core.close(RunStatus.FAILED, reason="gave_up"), CLOSED)
    wire.drive(core.leave(None))
    assert wire.names()[-1] == "CloseRun"


def test_a_refused_renewal_loses_the_lease_and_an_outage_does_not() -> None:
    wire = Wire()
    core = entered(wire)
    assert wire.drive(core.lease.renew(), After(31, lost()))
    assert core.lease.lost is None
    assert not wire.drive(core.lease.renew(), refused("STALE_LEASE"))
    assert isinstance(core.lease.lost, Refused)


def test_a_renewal_that_crosses_the_release_is_no_loss() -> None:
    wire = Wire()
    core = entered(wire)
    crossing = core.lease.renew()
    next(crossing)
    wire.drive(core.stop("waiting"), RELEASED)
    with pytest.raises(StopIteration):
        crossing.send(refused("LEASE_EXPIRED"))
    assert core.lease.lost is None
    with pytest.raises(RunNotDriven):
        core.lease.require_driving()


def test_a_renewal_counts_from_before_it_was_sent() -> None:
    wire = Wire()
    core = entered(wire)
    wire.now_s += 20
    wire.drive(core.lease.renew(), After(4, runs.RenewLeaseResponse(lease=lease(remaining_s=30))))
    assert core.lease.remaining_s == 26.0


def test_a_cancel_request_is_remembered_whichever_answer_brings_it() -> None:
    wire = Wire()
    core = entered(wire)
    wire.drive(core.plan([READ], best_effort=False), PLANNED)
    assert not core.lease.cancel_requested
    wire.drive(core.lease.renew(), runs.RenewLeaseResponse(lease=lease(), cancel_requested=True))
    assert core.lease.cancel_requested


def dropping(wire: Wire) -> RunCore:
    """A run in which one read went unrecorded: plan, start and report."""
    core = entered(wire)
    wire.drive(core.plan([READ], best_effort=True), After(3, unavailable()))
    effect = wire.drive(
        core.start("s1", version=None, timeout_s=None, best_effort=True, nothing_sent=())
    )
    assert effect.executing
    wire.drive(effect.complete(Outcome.SUCCEEDED))
    wire.drive(effect.leave(None))
    with pytest.raises(AlreadyReported):
        effect.complete(Outcome.SUCCEEDED)
    assert core.gaps.unreported == 3
    return core


def test_dropped_reads_are_counted_and_reported_with_the_next_append() -> None:
    wire = Wire()
    core = dropping(wire)
    wire.drive(core.plan([Step("s2", "t", "1")], best_effort=False), PLANNED, GAP)
    sent = wire.last(runs.AttachEvidenceRequest)
    assert (sent.kind, sent.dropped, sent.token) == ("gap", 3, 3)
    assert core.gaps.unreported == 0


def test_a_gap_report_keeps_its_request_id_until_it_is_acknowledged() -> None:
    wire = Wire()
    core = dropping(wire)
    wire.drive(core.plan([Step("s2", "t", "1")], best_effort=False), PLANNED, After(3, lost()))
    first = wire.sent[-1].body
    assert core.gaps.unreported == 3
    core.gaps.drop(2)
    assert core.gaps.unreported == 5
    wire.drive(core.close(RunStatus.FAILED, reason=""), GAP, CLOSED)
    assert wire.sent[-2].body == first
    assert core.gaps.unreported == 2


def test_a_read_whose_start_is_not_acknowledged_runs_and_is_counted() -> None:
    wire = Wire()
    core = entered(wire)
    wire.drive(core.plan([READ], best_effort=True), PLANNED)
    effect = wire.drive(
        core.start("s1", version=None, timeout_s=None, best_effort=True, nothing_sent=()),
        After(3, lost()),
    )
    assert effect.executing
    assert core.gaps.unreported == 1


def test_each_step_of_a_dropped_plan_is_counted() -> None:
    wire = Wire()
    core = entered(wire)
    other = Step("s2", "lookup", "1", effect_class=EffectClass.PROPOSE)
    planned = wire.drive(core.plan([READ, other], best_effort=True), After(3, lost()))
    assert planned.keys == ("", "")
    assert core.gaps.unreported == 2


def test_a_best_effort_report_is_given_up_after_two_seconds() -> None:
    wire = Wire()
    core = entered(wire)
    wire.drive(core.plan([READ], best_effort=True), PLANNED)
    effect = wire.drive(
        core.start("s1", version=None, timeout_s=None, best_effort=True, nothing_sent=()),
        executing(key=""),
    )
    report = wire.drive(effect.complete(Outcome.SUCCEEDED), After(2, lost()))
    assert report.append is None
    assert core.gaps.unreported == 1


def test_best_effort_is_refused_for_writes_and_for_what_is_not_planned() -> None:
    wire = Wire()
    core = entered(wire)
    with pytest.raises(InvalidRequest, match=r"steps\[1\]\.effect_class"):
        wire.drive(core.plan([READ, Step("s2", "t", "1")], best_effort=True))
    with pytest.raises(InvalidRequest, match="not planned here as READ_ONLY"):
        wire.drive(core.start("s2", version="1", timeout_s=None, best_effort=True, nothing_sent=()))


def test_a_read_that_must_be_recorded_is_not_dropped() -> None:
    wire = Wire()
    core = entered(wire)
    wire.drive(core.plan([READ], best_effort=False), PLANNED)
    with pytest.raises(LedgerUnavailable):
        wire.drive(
            core.start("s1", version=None, timeout_s=None, best_effort=False, nothing_sent=()),
            After(31, lost()),
        )


def resume_step(
    step: str, state: str, effect_class: str = "NON_IDEMPOTENT_WRITE", *, ready: bool = True
) -> runs.ResumeStep:
    return runs.ResumeStep(
        step=runs.Step(
            step=step,
            tool_version="7",
            state=types.StepState.Value(f"STEP_STATE_{state}"),
            effect_class=types.EffectClass.Value(f"EFFECT_CLASS_{effect_class}"),
        ),
        arguments=types.StoredPayload(
            availability=types.AVAILABILITY_PRESENT, content=b'{"order":1}'
        ),
        ready=ready,
    )


def test_resuming_reads_every_page_and_sorts_the_steps() -> None:
    wire = Wire()
    core = RunCore(wire.settings(), RunOptions("r1", "shop", 30.0, 0.0, None))
    erased = resume_step("gone", "PLANNED")
    erased.arguments.availability = types.AVAILABILITY_REDACTED
    pages = [
        runs.GetResumeStateResponse(
            run=runs.Run(run="r1"),
            steps=[
                resume_step("done", "SUCCEEDED"),
                resume_step("open", "PLANNED"),
                resume_step("later", "PLANNED", ready=False),
                resume_step("flying", "STARTED"),
                resume_step("unclear", "UNKNOWN"),
            ],
            next_page_token="2",
        ),
        runs.GetResumeStateResponse(
            run=runs.Run(run="r1", cancel_requested=True),
            steps=[
                erased,
                resume_step("again", "UNKNOWN", "IDEMPOTENT_WRITE"),
                resume_step("read", "FAILED", "READ_ONLY"),
                resume_step("failed", "FAILED"),
                resume_step("nothing", "NO_EFFECT"),
            ],
        ),
    ]
    granted = runs.AcquireLeaseResponse(append=append(), lease=lease())
    wire.drive(core.enter(), granted, *pages)
    state = core.resumed
    assert state is not None
    assert [step.step for step in state.ready] == ["open", "again", "read", "nothing"]
    assert [step.step for step in state.waiting] == ["later", "gone"]
    assert [step.step for step in state.in_flight] == ["flying"]
    assert [step.step for step in state.unknown] == ["unclear", "again"]
    assert [step.step for step in state.settled] == ["done", "read", "failed"]
    assert state.ready[0].arguments.content == b'{"order":1}'
    assert wire.last(runs.GetResumeStateRequest).page_token == "2"
    assert core.lease.cancel_requested
    effect = core.start("open", version=None, timeout_s=None, best_effort=False, nothing_sent=())
    wire.drive(effect, executing())
    assert wire.last(runs.StartStepRequest).tool_version == "7"


def in_a_child(check: str, core: RunCore) -> str:
    """What a forked child says of the run."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = b"nothing"
        try:
            if check == "nonce":
                said = process.current().nonce.encode()
            elif check == "drive":
                core.lease.require_driving()
            elif check == "leave":
                said = b"sent" if list(core.leave(None)) else b"left alone"
        except LedgerError as error:
            said = type(error).__name__.encode()
        finally:
            os.write(writing, said)
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        return answer.read().decode()


def test_a_forked_child_has_another_nonce_and_no_right_to_the_parents_lease() -> None:
    core = entered(Wire())
    mine = process.current().nonce
    assert in_a_child("nonce", core) not in ("", mine)
    assert process.current().nonce == mine
    assert in_a_child("drive", core) == ForkedProcess.__name__
    assert in_a_child("leave", core) == "left alone"
