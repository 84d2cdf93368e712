"""Settling an unknown by an attributed decision (contract, section 9; rules, section 6).

Where two people decide, the first proposes and the second confirms by deciding the same (ADR 9).
"""

from __future__ import annotations

from ledger.core import events
from ledger.core.answers import Answer, DecisionProposed, Reconciled
from ledger.core.commands import Caller, ProposeDecision, Reconcile
from ledger.core.decide.guards import (
    not_executed_from_us,
    not_understood,
    run_not_found,
    settle_dead,
)
from ledger.core.draft import Draft
from ledger.core.refusals import Reason, Refused
from ledger.core.run import Run
from ledger.core.run_events import SealedRef
from ledger.core.step import Step
from ledger.core.times import format_time
from ledger.core.vocabulary import ActorKind, Role, StepState, Verdict


def decide_reconcile(draft: Draft, command: Reconcile, *, decider: Caller) -> Answer:
    """One transaction settles run, step, key and list. Allowed in a closed run.

    Nobody who drove the run decides in it, whatever his roles; where two people decide, nobody
    alone.
    """
    found = _may_decide(draft, command, decider)
    if isinstance(found, Refused):
        return found
    run, step = found
    refused = _check_second(draft, run, step, command, decider)
    if refused is not None:
        return refused
    first = not step.decisions
    draft.record(
        run,
        events.StepReconciled(
            step=step.id,
            verdict=command.verdict,
            reason_code=command.reason_code,
            expected_version=command.expected_version,
            before=step.state,
            attempt=len(step.attempts),
            key=step.key,
            supersedes=-1 if command.supersedes_index is None else command.supersedes_index,
            supersedable=first and command.verdict is Verdict.NOT_EXECUTED,
        ),
        _payloads(draft, command),
    )
    return Reconciled(step.state.value)


def decide_propose(draft: Draft, command: ProposeDecision, *, proposer: Caller) -> Answer:
    """The first of two people's words, by the rules that bind a decision. Changes no state."""
    found = _may_decide(draft, command, proposer)
    if isinstance(found, Refused):
        return found
    run, step = found
    if not draft.policy.needs_two(step.effect):
        return Refused(
            Reason.WRONG_STATE,
            f"One person decides about {step.effect.value} steps, so there is nothing to propose. "
            "Nothing was recorded. Decide with Reconcile.",
            run=run.run_id,
            step=step.id,
            details={"class": step.effect.value},
        )
    draft.record(
        run,
        events.StepReconcileProposed(
            step=step.id,
            verdict=command.verdict,
            reason_code=command.reason_code,
            expected_version=command.expected_version,
            before=step.state,
            attempt=len(step.attempts),
            key=step.key,
            supersedes=-1 if command.supersedes_index is None else command.supersedes_index,
        ),
        _payloads(draft, command),
    )
    return DecisionProposed()


def _may_decide(
    draft: Draft, command: Reconcile | ProposeDecision, decider: Caller
) -> tuple[Run, Step] | Refused:
    """The step, if this caller may decide this about it now. Performs what is due on the run."""
    run = draft.run(command.run)
    if run is None:
        return run_not_found(command.run)
    if decider.principal in run.drivers:
        return Refused(
            Reason.SELF_RECONCILE,
            "Whoever opened, drove or is served by a run may not decide in it, whatever his roles. "
            "Nothing was recorded. Ask another reviewer.",
            run=run.run_id,
            step=command.step,
        )
    step = draft.step(run, command.step)
    if step is None:
        return Refused(
            Reason.STEP_NOT_PLANNED,
            "The step is not planned in this run. Nothing was recorded.",
            run=run.run_id,
            step=command.step,
        )
    settle_dead(draft, run)
    refused = not_understood(run) or _check_state(run, step, command, decider.principal)
    return refused or _check_time(draft, run, step, command) or (run, step)


def _payloads(draft: Draft, command: Reconcile | ProposeDecision) -> list[SealedRef]:
    slots = [("reason", 0), *(("evidence", at) for at in range(len(command.evidence)))]
    slots.append(("result", 0))
    return [sealed for slot in slots if (sealed := draft.sealed(slot)) is not None]


def _check_state(
    run: Run, step: Step, command: Reconcile | ProposeDecision, decider: str
) -> Refused | None:
    if command.supersedes_index is None:
        if step.decisions:
            return _decided(run, step)
        if not step.awaits_decision:
            return _wrong_state(run, step)
    elif not step.decisions or not (step.is_reconciled or step.awaits_decision):
        return _wrong_state(run, step)
    elif step.decisions[-1].index != command.supersedes_index:
        return Refused(
            Reason.NOT_SUPERSEDING,
            "That is not the step's newest decision. Nothing was recorded. Read the step again and "
            "name the decision that stands.",
            run=run.run_id,
            step=step.id,
            details={"newest_decision": str(step.decision_index)},
        )
    elif any(decision.is_of(decider) for decision in step.decisions):
        return Refused(
            Reason.NOT_SUPERSEDING,
            "A decision is superseded by somebody who made none of the step's decisions. Nothing "
            "was recorded. Ask another reviewer.",
            run=run.run_id,
            step=step.id,
        )
    if command.expected_version != step.version:
        return Refused(
            Reason.VERSION_MISMATCH,
            "The step changed since you looked at it. Nothing was recorded. Read it again, the "
            "news may change the decision.",
            run=run.run_id,
            step=step.id,
            details={"version": str(step.version), "expected": str(command.expected_version)},
        )
    if step.state is StepState.SUCCEEDED and command.verdict is Verdict.NOT_EXECUTED:
        return Refused(
            Reason.WRONG_STATE,
            "A success settled the step, and that is final. Nothing was recorded. Find out whether "
            "the effect happened more than once, then settle the contradiction as executed.",
            run=run.run_id,
            step=step.id,
            details={"state": step.state.value},
        )
    return None


def _decided(run: Run, step: Step) -> Refused:
    return Refused(
        Reason.WRONG_STATE,
        f"The step is {step.state.value} by the decision in entry {step.decision_index}. Nothing "
        "was recorded. Somebody who made none of its decisions may supersede that one, by naming "
        "its index.",
        run=run.run_id,
        step=step.id,
        details={"state": step.state.value, "newest_decision": str(step.decision_index)},
    )


def _wrong_state(run: Run, step: Step) -> Refused:
    return Refused(
        Reason.WRONG_STATE,
        f"The step is {step.state.value}, so there is nothing to decide. Nothing was recorded.",
        run=run.run_id,
        step=step.id,
        details={"state": step.state.value},
    )


def _check_time(
    draft: Draft, run: Run, step: Step, command: Reconcile | ProposeDecision
) -> Refused | None:
    if command.verdict is not Verdict.NOT_EXECUTED:
        return None
    from_us = not_executed_from_us(step, draft.policy)
    if draft.now_us >= from_us:
        return None
    return Refused(
        Reason.TOO_EARLY,
        "The call may still land: its operation deadline and margin are not past. Nothing was "
        "recorded. Decide again after the time named here.",
        run=run.run_id,
        step=step.id,
        details={"not_before": format_time(from_us)},
    )


def _check_second(
    draft: Draft, run: Run, step: Step, command: Reconcile, decider: Caller
) -> Refused | None:
    """Where two people decide, the second one confirms what another proposed, and is a person.

    A proposal that is named is checked also where one person may decide alone.
    """
    if command.proposal_index is None and not draft.policy.needs_two(step.effect):
        return None
    if draft.role is Role.CONFIRM or decider.kind is not ActorKind.HUMAN:
        return _proposal_required(
            run, step, "What a confirmer finds is proposed with ProposeDecision, and a person"
        )
    proposal = next((p for p in step.proposals if p.index == command.proposal_index), None)
    if proposal is None:
        return _proposal_required(
            run,
            step,
            "No proposal that stands was named: propose with ProposeDecision, and another person",
        )
    superseded = -1 if command.supersedes_index is None else command.supersedes_index
    if proposal.verdict is not command.verdict or proposal.supersedes != superseded:
        return _proposal_required(
            run, step, "The proposal says something else: propose what you found, and another"
        )
    if proposal.proposer == decider.principal:
        return Refused(
            Reason.OWN_PROPOSAL,
            "Two people decide about this step, and this is your own proposal. Nothing was "
            "recorded. Ask another reviewer to confirm it.",
            run=run.run_id,
            step=step.id,
            details={"proposal": str(proposal.index)},
        )
    return None


def _proposal_required(run: Run, step: Step, why: str) -> Refused:
    standing = ",".join(f"{p.index}:{p.verdict.value}" for p in step.proposals)
    return Refused(
        Reason.PROPOSAL_REQUIRED,
        f"Two people decide about this step. Nothing was recorded. {why} confirms it by deciding "
        "the same, with the proposal's index.",
        run=run.run_id,
        step=step.id,
        details={"class": step.effect.value, "standing": standing},
    )
