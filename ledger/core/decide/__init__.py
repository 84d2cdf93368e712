"""Deciding a command: from the runs and claims as they stand, to an answer and recorded events.

Deciders check everything before they record anything, so that a refusal leaves nothing behind. What
is *due* on a run (expiry, unknowns of a dead holder) is recorded even where the command is then
refused: it is a fact that the command only met first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from ledger.core.answers import Answer, LeaseGranted, Swept
from ledger.core.commands import (
    AcquireLease,
    AllowDowngrade,
    AttachEvidence,
    BreakLease,
    CloseRun,
    CompleteStep,
    MarkUnknown,
    OpenRun,
    PlanSteps,
    ProposeDecision,
    Reconcile,
    ReleaseLease,
    Request,
    RequestCancel,
    StartStep,
    SweepRun,
    WithdrawStep,
)
from ledger.core.decide.decisions import decide_propose, decide_reconcile
from ledger.core.decide.guards import settle_dead
from ledger.core.decide.leases import decide_acquire, decide_break, decide_release
from ledger.core.decide.plans import decide_plan, decide_withdraw
from ledger.core.decide.reports import decide_complete, decide_evidence, decide_unknown
from ledger.core.decide.runs import decide_cancel, decide_close, decide_downgrade, decide_open
from ledger.core.decide.start import EarlierStart, decide_start
from ledger.core.draft import Draft
from ledger.core.errors import InvariantViolation


@dataclass(frozen=True, slots=True)
class Before:
    """What a request id appended before: the index of its first entry, and the answer given."""

    index: int
    answer: Answer


def decide(draft: Draft, request: Request, *, before: Before | None) -> Answer:
    """The answer to one command, its events recorded in `draft`.

    `before` is what this request id appended before, for the two commands that are then decided by
    the present state (StartStep, AcquireLease); None otherwise. `draft.begin` was called for the
    request.
    """
    command = request.command
    match command:
        case OpenRun():
            return decide_open(draft, command)
        case AcquireLease():
            granted = before.answer if before is not None else None
            if granted is not None and not isinstance(granted, LeaseGranted):
                raise InvariantViolation("an AcquireLease appended something but gave no lease")
            return decide_acquire(draft, command, before=granted)
        case ReleaseLease():
            return decide_release(draft, command)
        case BreakLease():
            return decide_break(draft, command)
        case PlanSteps():
            return decide_plan(draft, command)
        case StartStep():
            start = None if before is None else EarlierStart(before.index)
            return decide_start(draft, command, earlier=start)
        case CompleteStep():
            return decide_complete(draft, command)
        case MarkUnknown():
            return decide_unknown(draft, command)
        case WithdrawStep():
            return decide_withdraw(draft, command)
        case AttachEvidence():
            return decide_evidence(draft, command)
        case RequestCancel():
            return decide_cancel(draft, command)
        case CloseRun():
            return decide_close(draft, command)
        case Reconcile():
            return decide_reconcile(draft, command, decider=request.caller)
        case ProposeDecision():
            return decide_propose(draft, command, proposer=request.caller)
        case AllowDowngrade():
            return decide_downgrade(draft, command)
        case SweepRun():
            run = draft.run(command.run)
            if run is not None:
                settle_dead(draft, run)
                # When something is due on what is not understood is for the newer release to say.
                if not run.not_understood:
                    draft.reassessed[run.run_id] = run
            return Swept()
    assert_never(command)
