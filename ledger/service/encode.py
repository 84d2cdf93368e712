"""Answers to commands as protobuf.

Where an answer speaks of the present (a run, a stored result, a receipt) the caller fetched it
before and hands it over as `Extras`; nothing is read here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from google.protobuf.message import Message

from ledger.core import answers
from ledger.core.answers import Answered, Appended
from ledger.core.errors import InvariantViolation
from ledger.core.refusals import Refused
from ledger.service import encode_views, words
from ledger.v1 import review_service_pb2 as review_pb
from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import types_pb2
from ledger.views import NO_CONTENT, RunView, StoredContent


@dataclass(frozen=True, slots=True)
class Extras:
    """What an answer names and the reader fills in: the run of an OpenRun, the result of a REPLAY,
    the receipt of an append."""

    view: RunView | None = None
    content: StoredContent = NO_CONTENT
    receipt: str = ""


NO_EXTRAS: Final = Extras()


def append_message(append: Appended | None, receipt: str) -> types_pb2.Append | None:
    """Where it was appended, None where nothing was."""
    if append is None:
        return None
    return types_pb2.Append(
        index=append.index,
        leaf_hash=append.leaf,
        tree_size=append.tree_size,
        entries=append.entries,
        recorded_at=encode_views.timestamp(append.recorded_us),
        receipt=receipt,
    )


def refusal_message(refused: Refused) -> types_pb2.Refusal:
    """A refusal as an answer's own part."""
    return types_pb2.Refusal(
        reason=refused.reason.value,  # type: ignore[arg-type]  # numbers are equal, a test holds it
        may_succeed_later=refused.may_succeed_later,
        message=refused.message,
        step=refused.step,
        run=refused.run,
        key=refused.key,
        details=refused.details,
    )


def answer_message(method: str, answered: Answered, extras: Extras = NO_EXTRAS) -> Message:
    """The response message of a method for an answer that is no refusal."""
    append = append_message(answered.append, extras.receipt)
    if answered.opened is not None:
        run = answered.opened
        extras = replace(extras, view=RunView(run, run.stored_counts, answered.now_us))
    return _ENCODERS[method](answered.answer, append, extras)


def _open_run(answer: Any, append: types_pb2.Append | None, extras: Extras) -> Message:
    if extras.view is None:
        raise InvariantViolation("an opened run was answered without the run")
    return pb.OpenRunResponse(append=append, run=encode_views.run_message(extras.view))


def _acquire_lease(answer: Any, append: types_pb2.Append | None, extras: Extras) -> Message:
    return pb.AcquireLeaseResponse(
        append=append,
        lease=lease_message(answer),
        cancel_requested=answer.cancel_requested,
    )


def renew_message(answer: answers.LeaseGranted) -> pb.RenewLeaseResponse:
    """A renewed lease."""
    return pb.RenewLeaseResponse(
        lease=lease_message(answer), cancel_requested=answer.cancel_requested
    )


def lease_message(answer: answers.LeaseGranted) -> pb.Lease:
    """The lease that the caller holds."""
    remaining_us = answer.expires_us - answer.now_us
    return pb.Lease(
        token=answer.token,
        holder=answer.holder,
        principal=answer.principal,
        expire_time=encode_views.timestamp(answer.expires_us),
        remaining=encode_views.duration(remaining_us),
        live=remaining_us > 0,
    )


def _release_lease(answer: Any, append: types_pb2.Append | None, extras: Extras) -> Message:
    return pb.ReleaseLeaseResponse(append=append)


def _break_lease(answer: Any, append: types_pb2.Append | None, extras: Extras) -> Message:
    return pb.BreakLeaseResponse(append=append)


def _plan_steps(answer: Any, append: types_pb2.Append | None, extras: Extras) -> Message:
    return pb.PlanStepsResponse(
        append=append, keys=answer.keys, cancel_requested=answer.cancel_requested
    )


def _start_step(answer: Any, append: types_pb2.Append | None, extras: Extras) -> Message:
    made = pb.StartStepResponse(append=append, cancel_requested=answer.cancel_requested)
    match answer:
        case answers.Execute():
            made.execute.CopyFrom(_execute(answer))
        case answers.Replay():
            made.replay.CopyFrom(_replay(answer, extras.content))
        case answers.Held():
            made.held.CopyFrom(_held(answer))
        case answers.OutcomeUnknown():
            made.unknown.CopyFrom(encode_views.unknown_message(answer.unknown))
        case answers.StartRefused():
            made.refused.CopyFrom(refusal_message(answer.refused))
        case _:
            raise InvariantViolation("StartStep is answered with a directive")
    return made


def _execute(answer: answers.Execute) -> pb.Execute:
    return pb.Execute(
        token=answer.token,
        attempt=answer.attempt,
        deadline=encode_views.timestamp(answer.deadline_us),
        remaining=encode_views.duration(answer.deadline_us - answer.now_us),
        key=answer.key,
        replayed=answer.replayed,
    )


def _replay(answer: answers.Replay, content: StoredContent) -> pb.Replay:
    return pb.Replay(
        outcome=words.OUTCOME[answer.outcome],
        result=encode_views.content_message(content),
        run=answer.run,
        step=answer.step,
        settled_index=answer.settled_index,
        state=words.STATE[answer.state],
    )


def _held(answer: answers.Held) -> pb.Held:
    return pb.Held(
        run=answer.run,
        step=answer.step,
        attempt=answer.attempt,
        token=answer.token,
        holder=answer.holder,
        until=encode_views.timestamp(answer.until_us),
    )


def _complete_step(answer: Any, append: types_pb2.Append | None, extras: Extras) -> Message:
    return pb.CompleteStepResponse(
        append=append,
        disposition=words.DISPOSITION[answer.disposition],
        evidence_recorded=answer.evidence_recorded,
        state=words.STATE[answer.state],
        contradiction=answer.contradiction,
        cancel_requested=answer.cancel_requested,
    )


def _mark_unknown(answer: Any, append: types_pb2.Append | None, extras: Extras) -> Message:
    unknown = answer.unknown
    return pb.MarkUnknownResponse(
        append=append,
        disposition=words.DISPOSITION[answer.disposition],
        state=words.STATE[answer.state],
        unknown=None if unknown is None else encode_views.unknown_message(unknown),
        cancel_requested=answer.cancel_requested,
    )


def _withdraw_step(answer: Any, append: types_pb2.Append | None, extras: Extras) -> Message:
    return pb.WithdrawStepResponse(append=append, cancel_requested=answer.cancel_requested)


def _attach_evidence(answer: Any, append: types_pb2.Append | None, extras: Extras) -> Message:
    return pb.AttachEvidenceResponse(append=append, contradiction=answer.contradiction)


def _request_cancel(answer: Any, append: types_pb2.Append | None, extras: Extras) -> Message:
    return pb.RequestCancelResponse(append=append, closed=answer.closed)


def _close_run(answer: Any, append: types_pb2.Append | None, extras: Extras) -> Message:
    return pb.CloseRunResponse(append=append, status=words.STATUS[answer.status])


def _reconcile(answer: Any, append: types_pb2.Append | None, extras: Extras) -> Message:
    return review_pb.ReconcileResponse(append=append, state=words.STATE[answer.state])


def _propose_decision(answer: Any, append: types_pb2.Append | None, extras: Extras) -> Message:
    return review_pb.ProposeDecisionResponse(append=append)


def _allow_downgrade(answer: Any, append: types_pb2.Append | None, extras: Extras) -> Message:
    return review_pb.AllowDowngradeResponse(append=append)


_Encode = Callable[[Any, "types_pb2.Append | None", Extras], Message]

_ENCODERS: Final[dict[str, _Encode]] = {
    "OpenRun": _open_run,
    "AcquireLease": _acquire_lease,
    "ReleaseLease": _release_lease,
    "BreakLease": _break_lease,
    "PlanSteps": _plan_steps,
    "StartStep": _start_step,
    "CompleteStep": _complete_step,
    "MarkUnknown": _mark_unknown,
    "WithdrawStep": _withdraw_step,
    "AttachEvidence": _attach_evidence,
    "RequestCancel": _request_cancel,
    "CloseRun": _close_run,
    "Reconcile": _reconcile,
    "ProposeDecision": _propose_decision,
    "AllowDowngrade": _allow_downgrade,
}
