"""Starting a step: the ledger answers with a directive (contract, section 5; rules, section 4).

The checks run in the order of rules section 4, and the first hit answers; those on the key stand in
`start_keys`. Everything is decided from the run, the claim on the key and the claims on its
predecessors.
"""

from __future__ import annotations

from dataclasses import dataclass

from ledger.core import events
from ledger.core.answers import Answer, Execute, StartRefused
from ledger.core.commands import ATTEMPTS_MAX, StartStep
from ledger.core.decide.guards import driven_run, settle_dead
from ledger.core.decide.start_keys import (
    held,
    key_abandoned,
    of_key,
    of_supersession,
    of_twins,
    replay_own,
    start_refused,
    step_of,
    unknown,
)
from ledger.core.decide.waiting import what_it_waits_for
from ledger.core.draft import Draft
from ledger.core.errors import InvariantViolation
from ledger.core.refusals import Reason, Refused
from ledger.core.run import Run
from ledger.core.vocabulary import StepState


@dataclass(frozen=True, slots=True)
class EarlierStart:
    """What this request id did before: the attempt whose `step.started` stands at `index`."""

    index: int


def decide_start(draft: Draft, command: StartStep, *, earlier: EarlierStart | None) -> Answer:
    """A directive. Appends `step.started` exactly when the answer is a fresh EXECUTE."""
    met = draft.run(command.run)
    if met is not None:
        settle_dead(draft, met)
    if earlier is not None:
        repeated = _repeated(draft, command, earlier)
        if repeated is not None:
            return repeated
    found = driven_run(draft, command.run, token=command.token, process=command.process)
    if isinstance(found, Refused):
        return StartRefused(found, _cancel_requested(draft, command.run))
    run = found
    for check in (_step_itself, _own_state, _cancelled, of_key, of_twins, of_supersession, _after):
        answer = check(draft, run, command)
        if answer is not None:
            return answer
    if earlier is not None:
        return start_refused(
            run,
            Reason.START_ALREADY_USED,
            "This request started an attempt before, and that one is over. Nothing was recorded. "
            "Start again with a new request id if the directive should be asked for anew.",
            step=command.step,
        )
    return _execute(draft, run, command)


def _cancel_requested(draft: Draft, run_id: str) -> bool:
    run = draft.run(run_id)
    return run is not None and run.cancel_requested


def _repeated(draft: Draft, command: StartStep, earlier: EarlierStart) -> Execute | None:
    """EXECUTE again, only to the same process while the attempt it started may still run."""
    run = draft.run(command.run)
    step = run.steps.get(command.step) if run is not None else None
    if run is None or run.is_closed or step is None or step.state is not StepState.STARTED:
        return None
    attempt = step.attempt
    if attempt.started_index != earlier.index or attempt.token != run.lease.token:
        return None
    if attempt.process != command.process or attempt.deadline_us <= draft.now_us:
        return None
    return Execute(
        attempt.token,
        attempt.number,
        attempt.deadline_us,
        draft.now_us,
        step.key,
        replayed=True,
        cancel_requested=run.cancel_requested,
    )


def _step_itself(draft: Draft, run: Run, command: StartStep) -> Answer | None:
    """Checks 4 and 5: the step exists, was not withdrawn, and is planned for this tool version."""
    step = run.steps.get(command.step)
    if step is None:
        return start_refused(
            run,
            Reason.STEP_NOT_PLANNED,
            "The step is not planned in this run. Nothing was recorded. Plan it first.",
            step=command.step,
        )
    if step.state is StepState.WITHDRAWN:
        return start_refused(
            run,
            Reason.STEP_WITHDRAWN,
            "The step was withdrawn. Nothing was recorded. Plan the action under another id.",
            step=step.id,
        )
    if step.tool_version != command.version:
        return start_refused(
            run,
            Reason.TOOL_VERSION_MISMATCH,
            f"The step is planned for version {step.tool_version} of its tool, not "
            f"{command.version}. Nothing was recorded. Withdraw it and plan anew.",
            step=step.id,
            planned=step.tool_version,
            given=command.version,
        )
    return None


def _own_state(draft: Draft, run: Run, command: StartStep) -> Answer | None:
    """Check 6: what the step's own state says."""
    step = step_of(run, command)
    match step.state:
        case StepState.SUCCEEDED | StepState.RECONCILED_EXECUTED:
            return replay_own(draft, run, step)
        case StepState.FAILED:
            return replay_own(draft, run, step) if step.is_write else None
        case StepState.STARTED:
            return held(run, run, step)
        case StepState.UNKNOWN:
            if step.effect.rank == 3:
                return unknown(draft, run, run, step)
            return None
        case StepState.RECONCILED_NOT_EXECUTED:
            return key_abandoned(run, step.id, step.key)
        case StepState.PLANNED | StepState.NO_EFFECT:
            return None
        case StepState.WITHDRAWN:
            raise InvariantViolation("a withdrawn step was let through")


def _cancelled(draft: Draft, run: Run, command: StartStep) -> Answer | None:
    """Check 7."""
    if not run.cancel_requested:
        return None
    return start_refused(
        run,
        Reason.CANCELLED,
        "The run was asked to cancel; nothing more may start in it. Nothing was recorded. Close "
        "the run.",
        step=command.step,
    )


def _after(draft: Draft, run: Run, command: StartStep) -> Answer | None:
    """Check 12."""
    refused = what_it_waits_for(draft, run, step_of(run, command))
    return None if refused is None else StartRefused(refused, run.cancel_requested)


def _execute(draft: Draft, run: Run, command: StartStep) -> Answer:
    step = step_of(run, command)
    if len(step.attempts) >= ATTEMPTS_MAX:
        return start_refused(
            run,
            Reason.LIMIT_EXCEEDED,
            f"The step was started {ATTEMPTS_MAX} times. Nothing was recorded. Plan a new step.",
            step=step.id,
        )
    most = draft.policy.open_steps_max
    if step.state is not StepState.PLANNED and run.open_steps >= most:
        return start_refused(
            run,
            Reason.LIMIT_EXCEEDED,
            f"At most {most:,} steps of a run may be planned or started at once. Nothing was "
            "recorded. Start it again once some of these ended or were withdrawn.",
            step=step.id,
            open_steps=str(run.open_steps),
            open_steps_max=str(most),
        )
    deadline_us = draft.now_us + command.operation_ms * 1000
    draft.record(
        run,
        events.StepStarted(
            step=step.id,
            attempt=len(step.attempts) + 1,
            token=run.lease.token,
            process=command.process,
            deadline=deadline_us,
            key=step.key,
            supersedes=step.supersedes,
        ),
    )
    return Execute(
        run.lease.token,
        len(step.attempts),
        deadline_us,
        draft.now_us,
        step.key,
        replayed=False,
        cancel_requested=run.cancel_requested,
    )
