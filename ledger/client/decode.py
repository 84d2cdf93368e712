"""Answers of the wire as typed values. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from ledger.client.errors import DirectiveNotUnderstood
from ledger.client.values import (
    Append,
    Appended,
    CancelAsked,
    Closed,
    Directive,
    EvidenceAttached,
    Execute,
    Held,
    Lease,
    LeaseGranted,
    Opened,
    Planned,
    Reconciled,
    Refusal,
    Replay,
    Report,
    ResumeStep,
    RunInfo,
    StandingProposal,
    Started,
    StepInfo,
    StoredPayload,
    UnknownStep,
)
from ledger.client.words import (
    Availability,
    Disposition,
    EffectClass,
    Outcome,
    Reason,
    RunStatus,
    StepState,
)
from ledger.v1 import review_service_pb2 as reviews
from ledger.v1 import run_service_pb2 as runs
from ledger.v1 import types_pb2 as types


def time_of(stamp: Timestamp) -> datetime | None:
    """UTC, or None where the field is unset."""
    if not stamp.seconds and not stamp.nanos:
        return None
    return stamp.ToDatetime(tzinfo=UTC)


def time_of_text(text: str) -> datetime | None:
    """A time as details carry it (RFC 3339), or None where it is not one."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def seconds_of(duration: Duration) -> float:
    """Seconds."""
    return duration.seconds + duration.nanos / 1e9


def append_of(append: types.Append) -> Append | None:
    """None where the command appended nothing."""
    if append.entries == 0 or not append.HasField("recorded_at"):
        return None
    return Append(
        index=append.index,
        leaf_hash=append.leaf_hash,
        tree_size=append.tree_size,
        entries=append.entries,
        recorded_at=append.recorded_at.ToDatetime(tzinfo=UTC),
        receipt=append.receipt,
    )


def payload_of(payload: types.StoredPayload) -> StoredPayload:
    """An unset payload reads as NONE: there never was one."""
    return StoredPayload(
        availability=Availability(payload.availability) or Availability.NONE,
        content=payload.content,
        media_type=payload.media_type,
        redacted_index=payload.redacted_index,
    )


def lease_of(lease: runs.Lease) -> Lease:
    """A lease."""
    return Lease(
        token=lease.token,
        holder=lease.holder,
        principal=lease.principal,
        expires_at=time_of(lease.expire_time),
        remaining_s=seconds_of(lease.remaining),
        live=lease.live,
    )


def run_of(run: runs.Run) -> RunInfo:
    """A run."""
    return RunInfo(
        run=run.run,
        status=RunStatus(run.status),
        reason=run.reason,
        opened_by=run.opened_by,
        initiator=run.initiator,
        parent=run.parent,
        ceiling=EffectClass(run.ceiling),
        labels=dict(run.labels),
        opened_at=time_of(run.opened_at),
        changed_at=time_of(run.changed_at),
        version=run.version,
        index=run.index,
        head=run.head,
        lease=lease_of(run.lease) if run.HasField("lease") else None,
        cancel_requested=run.cancel_requested,
        step_counts=dict(run.step_counts),
    )


def step_of(step: runs.Step) -> StepInfo:
    """A step."""
    return StepInfo(
        step=step.step,
        tool=step.tool,
        tool_version=step.tool_version,
        effect_class=EffectClass(step.effect_class),
        key=step.key,
        after=tuple(step.after),
        supersedes=step.supersedes,
        state=StepState(step.state),
        attempt=step.attempt,
        token=step.token,
        deadline=time_of(step.deadline),
        version=step.version,
        cause=step.cause,
        contradiction=step.contradiction,
        decision_index=_index_of(step.decision_index_plus_one),
    )


def resume_step_of(step: runs.ResumeStep) -> ResumeStep:
    """A step with its payloads."""
    return ResumeStep(
        info=step_of(step.step),
        arguments=payload_of(step.arguments),
        result=payload_of(step.result),
        ready=step.ready,
        waiting_for=step.waiting_for,
    )


def unknown_of(unknown: types.UnknownStep) -> UnknownStep:
    """An unsettled step."""
    return UnknownStep(
        run=unknown.run,
        step=unknown.step,
        expected_version=unknown.expected_version,
        attempt=unknown.attempt,
        tool=unknown.tool,
        tool_version=unknown.tool_version,
        effect_class=EffectClass(unknown.effect_class),
        key=unknown.key,
        cause=unknown.cause,
        since=time_of(unknown.since),
        not_executed_from=time_of(unknown.not_executed_from),
        state=StepState(unknown.state),
        contradiction=unknown.contradiction,
        decision_index=_index_of(unknown.decision_index_plus_one),
        proposals=tuple(
            StandingProposal(
                each.index,
                each.executed,
                each.reason_code,
                each.proposer,
                time_of(each.proposed_at),
            )
            for each in unknown.proposals
        ),
    )


def _index_of(plus_one: int) -> int | None:
    return plus_one - 1 if plus_one else None


def refusal_of(refusal: types.Refusal) -> Refusal:
    """A refusal."""
    return Refusal(
        reason=Reason(refusal.reason),
        may_succeed_later=refusal.may_succeed_later,
        message=refusal.message,
        step=refusal.step,
        run=refusal.run,
        key=refusal.key,
        details=dict(refusal.details),
    )


def directive_of(answer: runs.StartStepResponse) -> Directive:
    """The directive. Raises `DirectiveNotUnderstood` for one this version does not know: nothing
    runs on it.
    """
    match answer.WhichOneof("directive"):
        case "execute":
            execute = answer.execute
            return Execute(
                token=execute.token,
                attempt=execute.attempt,
                deadline=time_of(execute.deadline),
                remaining_s=seconds_of(execute.remaining),
                key=execute.key,
                replayed=execute.replayed,
            )
        case "replay":
            replay = answer.replay
            return Replay(
                outcome=Outcome(replay.outcome),
                result=payload_of(replay.result),
                run=replay.run,
                step=replay.step,
                settled_index=replay.settled_index,
                state=StepState(replay.state),
            )
        case "held":
            held = answer.held
            return Held(
                run=held.run,
                step=held.step,
                attempt=held.attempt,
                token=held.token,
                holder=held.holder,
                until=time_of(held.until),
            )
        case "unknown":
            return unknown_of(answer.unknown)
        case "refused":
            return refusal_of(answer.refused)
        case _:
            raise DirectiveNotUnderstood(
                "the ledger answered a start with a directive this version does not know. The tool "
                "was not run. Update the SDK."
            )


def opened_of(answer: runs.OpenRunResponse) -> Opened:
    """OpenRun's answer."""
    return Opened(append_of(answer.append), run_of(answer.run))


def lease_granted_of(answer: runs.AcquireLeaseResponse) -> LeaseGranted:
    """AcquireLease's answer."""
    return LeaseGranted(append_of(answer.append), lease_of(answer.lease), answer.cancel_requested)


def planned_of(answer: runs.PlanStepsResponse) -> Planned:
    """PlanSteps' answer."""
    return Planned(append_of(answer.append), tuple(answer.keys), answer.cancel_requested)


def started_of(answer: runs.StartStepResponse) -> Started:
    """StartStep's answer."""
    return Started(append_of(answer.append), directive_of(answer), answer.cancel_requested)


def completed_of(answer: runs.CompleteStepResponse) -> Report:
    """CompleteStep's answer."""
    return Report(
        append=append_of(answer.append),
        disposition=Disposition(answer.disposition),
        state=StepState(answer.state),
        evidence_recorded=answer.evidence_recorded,
        contradiction=answer.contradiction,
        cancel_requested=answer.cancel_requested,
    )


def marked_of(answer: runs.MarkUnknownResponse) -> Report:
    """MarkUnknown's answer."""
    disposition = Disposition(answer.disposition)
    return Report(
        append=append_of(answer.append),
        disposition=disposition,
        state=StepState(answer.state),
        evidence_recorded=disposition in (Disposition.LATE, Disposition.STALE_LEASE),
        contradiction=False,
        cancel_requested=answer.cancel_requested,
        unknown=unknown_of(answer.unknown) if answer.HasField("unknown") else None,
    )


def evidence_of(answer: runs.AttachEvidenceResponse) -> EvidenceAttached:
    """AttachEvidence's answer."""
    return EvidenceAttached(append_of(answer.append), answer.contradiction)


def cancel_of(answer: runs.RequestCancelResponse) -> CancelAsked:
    """RequestCancel's answer."""
    return CancelAsked(append_of(answer.append), answer.closed)


def closed_of(answer: runs.CloseRunResponse) -> Closed:
    """CloseRun's answer."""
    return Closed(append_of(answer.append), RunStatus(answer.status))


def reconciled_of(answer: reviews.ReconcileResponse) -> Reconciled:
    """Reconcile's answer."""
    return Reconciled(append_of(answer.append), StepState(answer.state))


def proposed_of(answer: reviews.ProposeDecisionResponse) -> Appended:
    """ProposeDecision's answer."""
    return Appended(append_of(answer.append))


def released_of(answer: runs.ReleaseLeaseResponse | runs.BreakLeaseResponse) -> Appended:
    """ReleaseLease's or BreakLease's answer."""
    return Appended(append_of(answer.append))


def withdrawn_of(answer: runs.WithdrawStepResponse) -> Appended:
    """WithdrawStep's answer."""
    return Appended(append_of(answer.append), answer.cancel_requested)
