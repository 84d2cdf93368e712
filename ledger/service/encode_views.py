"""Views of runs, steps, unknowns and payloads as protobuf."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from ledger.core.answers import UnknownStep
from ledger.core.run import Lease
from ledger.core.step import Step
from ledger.core.vocabulary import Verdict
from ledger.service import words
from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import types_pb2
from ledger.views import ResumeStep, RunView, StoredContent

_SECOND_US = 1_000_000


def timestamp(time_us: int) -> Timestamp | None:
    """A time in microseconds since the epoch; None for 0, which stands for no time."""
    if not time_us:
        return None
    seconds, micros = divmod(time_us, _SECOND_US)
    return Timestamp(seconds=seconds, nanos=micros * 1_000)


def duration(us: int) -> Duration:
    """How long is left, never below nothing."""
    seconds, micros = divmod(max(us, 0), _SECOND_US)
    return Duration(seconds=seconds, nanos=micros * 1_000)


def content_message(content: StoredContent) -> types_pb2.StoredPayload:
    """A stored payload, or why it is not there."""
    return types_pb2.StoredPayload(
        availability=words.AVAILABILITY[content.availability],
        content=content.content,
        media_type=content.media_type,
        redacted_index=content.redacted_index,
    )


def unknown_message(unknown: UnknownStep) -> types_pb2.UnknownStep:
    """An unsettled step with the ids that Reconcile takes."""
    return types_pb2.UnknownStep(
        run=unknown.run,
        step=unknown.step,
        expected_version=unknown.expected_version,
        attempt=unknown.attempt,
        tool=unknown.tool,
        tool_version=unknown.tool_version,
        effect_class=words.EFFECT_CLASS[unknown.effect],
        key=unknown.key,
        cause=unknown.cause,
        since=timestamp(unknown.since_us),
        not_executed_from=timestamp(unknown.not_executed_from_us),
        state=words.STATE[unknown.state],
        contradiction=unknown.contradiction,
        decision_index_plus_one=unknown.decision_index + 1,
        proposals=[
            types_pb2.StandingProposal(
                index=each.index,
                executed=each.verdict == Verdict.EXECUTED,
                reason_code=each.reason_code,
                proposer=each.proposer,
                proposed_at=timestamp(each.proposed_us),
            )
            for each in unknown.proposals
        ],
    )


def run_message(view: RunView) -> pb.Run:
    """A run as it stands."""
    run = view.run
    return pb.Run(
        run=run.run_id,
        status=words.STATUS[run.status] if run.status else types_pb2.RUN_STATUS_UNSPECIFIED,
        reason=run.reason,
        opened_by=run.opened_by,
        initiator=run.initiator,
        parent=run.parent,
        ceiling=words.EFFECT_CLASS[run.ceiling],
        labels=dict(run.labels),
        opened_at=timestamp(run.opened_us),
        changed_at=timestamp(run.changed_us),
        version=run.version - 1,
        index=run.index,
        head=run.leaf,
        lease=_lease(run.lease, view.now_us) if run.lease.token else None,
        cancel_requested=run.cancel_requested,
        step_counts={state.value: count for state, count in view.counts.items() if count},
    )


def _lease(lease: Lease, now_us: int) -> pb.Lease:
    live = lease.is_live(now_us)
    return pb.Lease(
        token=lease.token,
        holder=lease.holder,
        principal=lease.principal,
        expire_time=timestamp(lease.expires_us),
        remaining=duration(lease.expires_us - now_us) if live else duration(0),
        live=live,
    )


def step_message(step: Step) -> pb.Step:
    """A step as it stands."""
    newest = step.attempts[-1] if step.attempts else None
    return pb.Step(
        step=step.id,
        tool=step.tool,
        tool_version=step.tool_version,
        effect_class=words.EFFECT_CLASS[step.effect],
        key=step.key,
        after=step.after,
        supersedes=step.supersedes,
        state=words.STATE[step.state],
        attempt=newest.number if newest else 0,
        token=newest.token if newest else 0,
        deadline=timestamp(newest.deadline_us) if newest else None,
        version=step.version,
        cause=step.cause,
        contradiction=step.contradiction,
        decision_index_plus_one=step.decision_index + 1,
    )


def resume_step_message(resumed: ResumeStep) -> pb.ResumeStep:
    """A step, as resuming needs it."""
    return pb.ResumeStep(
        step=step_message(resumed.step),
        arguments=content_message(resumed.arguments),
        result=content_message(resumed.result),
        ready=resumed.ready,
        waiting_for=resumed.waiting_for,
    )
