"""Starting a step: the ledger answers with a directive (contract, section 5; rules, section 4).

The checks stand here in the order of rules section 4, and the first hit answers. Everything is
decided from the run, the claim on the key and the claims on its predecessors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ledger.core import events
from ledger.core.answers import Answer, Execute, Held, OutcomeUnknown, Replay, StartRefused
from ledger.core.claims import SETTLED, Claim
from ledger.core.commands import ATTEMPTS_MAX, StartStep
from ledger.core.decide.guards import driven_run, settle_dead, unknown_step
from ledger.core.decide.waiting import what_it_waits_for
from ledger.core.draft import Draft
from ledger.core.errors import InvariantViolation
from ledger.core.refusals import Reason, Refused
from ledger.core.run import Run
from ledger.core.step import Step
from ledger.core.vocabulary import SETTLED_WELL, Outcome, StepState

_WITHOUT_EFFECT: Final = frozenset(
    {StepState.NO_EFFECT, StepState.FAILED, StepState.RECONCILED_NOT_EXECUTED}
)


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
    for check in (_step_itself, _own_state, _cancelled, _key, _twins, _supersedes, _after):
        answer = check(draft, run, command)
        if answer is not None:
            return answer
    if earlier is not None:
        return _refused(
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


def _refused(
    run: Run, reason: Reason, message: str, *, step: str, key: str = "", **details: str
) -> StartRefused:
    refused = Refused(reason, message, step=step, run=run.run_id, key=key, details=details)
    return StartRefused(refused, run.cancel_requested)


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


def _step_of(run: Run, command: StartStep) -> Step:
    step = run.steps.get(command.step)
    if step is None:
        raise InvariantViolation("a check ran before the step was known to exist")
    return step


def _step_itself(draft: Draft, run: Run, command: StartStep) -> Answer | None:
    """Checks 4 and 5: the step exists, was not withdrawn, and is planned for this tool version."""
    step = run.steps.get(command.step)
    if step is None:
        return _refused(
            run,
            Reason.STEP_NOT_PLANNED,
            "The step is not planned in this run. Nothing was recorded. Plan it first.",
            step=command.step,
        )
    if step.state is StepState.WITHDRAWN:
        return _refused(
            run,
            Reason.STEP_WITHDRAWN,
            "The step was withdrawn. Nothing was recorded. Plan the action under another id.",
            step=step.id,
        )
    if step.tool_version != command.version:
        return _refused(
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
    step = _step_of(run, command)
    match step.state:
        case StepState.SUCCEEDED | StepState.RECONCILED_EXECUTED:
            return _replay_own(draft, run, step)
        case StepState.FAILED:
            return _replay_own(draft, run, step) if step.is_write else None
        case StepState.STARTED:
            return _held(run, run, step)
        case StepState.UNKNOWN:
            if step.effect.rank == 3:
                return _unknown(draft, run, run, step)
            return None
        case StepState.RECONCILED_NOT_EXECUTED:
            return _key_abandoned(run, step.id, step.key)
        case StepState.PLANNED | StepState.NO_EFFECT:
            return None
        case StepState.WITHDRAWN:
            raise InvariantViolation("a withdrawn step was let through")


def _cancelled(draft: Draft, run: Run, command: StartStep) -> Answer | None:
    """Check 7."""
    if not run.cancel_requested:
        return None
    return _refused(
        run,
        Reason.CANCELLED,
        "The run was asked to cancel; nothing more may start in it. Nothing was recorded. Close "
        "the run.",
        step=command.step,
    )


def _key(draft: Draft, run: Run, command: StartStep) -> Answer | None:
    """Checks 8 and 9: the arguments first used with the key, then how the key stands."""
    step = _step_of(run, command)
    if draft.is_erased(step.arguments):
        return _arguments_erased(run, step)
    if not step.key:
        return None
    claim = draft.claim(tool=step.tool, key=step.key)
    if claim is None:
        return None
    same = draft.same_arguments(tool=step.tool, first=claim.arguments, other=step.arguments)
    if same is None:
        return _arguments_erased(run, step)
    if not same:
        return _refused(
            run,
            Reason.KEY_CONFLICT,
            "The key was used before with other arguments. Nothing was recorded, and the tool must "
            "not run. Plan this action with a key of its own.",
            step=step.id,
            key=step.key,
        )
    return _key_state(draft, run, step, claim)


def _arguments_erased(run: Run, step: Step) -> StartRefused:
    return _refused(
        run,
        Reason.ARGUMENTS_ERASED,
        "Arguments were erased, so it cannot be told whether this action was tried before. Nothing "
        "was recorded. Plan a new action with a new key.",
        step=step.id,
        key=step.key,
    )


def _key_state(draft: Draft, run: Run, step: Step, claim: Claim) -> Answer | None:
    if claim.contradicted_by and claim.state in _WITHOUT_EFFECT:
        answer = _of_contradicted(draft, run, step, claim)
        if answer is not None:
            return answer
    if claim.is_owned_by(run=run.run_id, step=step.id):
        return None
    if claim.state is StepState.STARTED:
        owner, holding = _claimant(draft, claim.run, claim.step)
        settle_dead(draft, owner)
        if holding.state is StepState.STARTED:
            return _held(run, owner, holding)
    if claim.state is StepState.UNKNOWN:
        return _unknown_of_claim(draft, run, claim.run, claim.step)
    if claim.state in SETTLED:
        return _replay_from(draft, run, step, claim)
    if claim.state is StepState.RECONCILED_NOT_EXECUTED:
        return _key_abandoned(run, step.id, step.key)
    return None


def _of_contradicted(draft: Draft, run: Run, step: Step, claim: Claim) -> Answer | None:
    """A key whose newest start had no effect, but an earlier one had, or any may have had."""
    spent = _executed_earlier(draft, claim)
    if spent is not None:
        owner, earlier = spent
        settled = replace(claim, run=owner.run_id, step=earlier.id)
        settled.follow(earlier)
        return _replay_from(draft, run, step, settled)
    if claim.state is StepState.NO_EFFECT:
        return _unknown_of_claim(draft, run, *claim.contradicted_by[0])
    return None


def _executed_earlier(draft: Draft, claim: Claim) -> tuple[Run, Step] | None:
    """The step that was decided executed under the key, though another started under it since."""
    for run_id, step_id in claim.contradicted_by:
        owner, step = _claimant(draft, run_id, step_id)
        if step.state in SETTLED_WELL and not claim.is_owned_by(run=run_id, step=step_id):
            return owner, step
    return None


def _claimant(draft: Draft, run_id: str, step_id: str) -> tuple[Run, Step]:
    owner = draft.run(run_id)
    step = None if owner is None else draft.step(owner, step_id)
    if owner is None or step is None:
        raise InvariantViolation("a claim names a run or a step that does not exist")
    return owner, step


def _unknown_of_claim(draft: Draft, run: Run, owner_id: str, owner_step: str) -> Answer:
    return _unknown(draft, run, *_claimant(draft, owner_id, owner_step))


def _key_abandoned(run: Run, step: str, key: str) -> StartRefused:
    return _refused(
        run,
        Reason.KEY_ABANDONED,
        "The key was decided not_executed and is spent. Nothing was recorded. Plan a new step "
        "whose key supersedes it; that works once.",
        step=step,
        key=key,
    )


def _held(run: Run, owner: Run, step: Step) -> Held:
    attempt = step.attempt
    lease = owner.lease
    same_lease = lease.token == attempt.token
    until = max(attempt.deadline_us, lease.expires_us if same_lease else 0)
    return Held(
        owner.run_id,
        step.id,
        attempt.number,
        attempt.token,
        lease.holder if same_lease else "",
        until,
        run.cancel_requested,
    )


def _unknown(draft: Draft, run: Run, owner: Run, step: Step) -> OutcomeUnknown:
    return OutcomeUnknown(unknown_step(draft, owner, step), run.cancel_requested)


def _replay_own(draft: Draft, run: Run, step: Step) -> Replay:
    """The step's own outcome. Where it was replayed itself, the result is the key owner's."""
    if not step.result_id and step.key:
        claim = draft.claim(tool=step.tool, key=step.key)
        owned = claim is not None and claim.is_owned_by(run=run.run_id, step=step.id)
        if claim is not None and claim.state in SETTLED and not owned:
            return _replay_of(run, claim)
    return Replay(
        Outcome.FAILED.value if step.state is StepState.FAILED else Outcome.SUCCEEDED.value,
        step.state.value,
        run.run_id,
        step.id,
        step.settled_index,
        step.result_id,
        step.settled_by,
        run.cancel_requested,
    )


def _replay_of(run: Run, claim: Claim) -> Replay:
    return Replay(
        Outcome.FAILED.value if claim.state is StepState.FAILED else Outcome.SUCCEEDED.value,
        claim.state.value,
        claim.run,
        claim.step,
        claim.settled_index,
        claim.result_id,
        claim.settled_by,
        run.cancel_requested,
    )


def _replay_from(draft: Draft, run: Run, step: Step, claim: Claim) -> Replay:
    """Settles the step as its key is (rules, section 3, last row)."""
    if step.state in (StepState.PLANNED, StepState.NO_EFFECT):
        failed = claim.state is StepState.FAILED
        draft.record_own(
            run,
            events.StepReplayed(
                step=step.id,
                key=step.key,
                state=StepState.FAILED if failed else StepState.SUCCEEDED,
                settled_by=claim.settled_index,
                run=claim.run,
                source=claim.step,
            ),
            cause="key_settled",
        )
    return _replay_of(run, claim)


def _twins(draft: Draft, run: Run, command: StartStep) -> Answer | None:
    """Check 10: an equal action of the same run that is not settled answers for it."""
    step = _step_of(run, command)
    if not step.is_write:
        return None
    for twin in draft.twins(run, step):
        if twin.state is StepState.STARTED:
            return _held(run, run, twin)
        if twin.counts_as_unknown:
            return _unknown(draft, run, run, twin)
    return None


def _supersedes(draft: Draft, run: Run, command: StartStep) -> Answer | None:
    """Check 11: what the step takes the place of, and what it would have to."""
    step = _step_of(run, command)
    if not step.is_write:
        return None
    for twin in draft.twins(run, step):
        if twin.state not in (StepState.FAILED, StepState.RECONCILED_NOT_EXECUTED):
            continue
        newest = _newest_of_chain(draft, twin)
        if newest not in (step.key, step.supersedes):
            return _refused(
                run,
                Reason.SUPERSEDE_REQUIRED,
                "An equal action of this run failed or was decided not_executed. Nothing was "
                "recorded. Plan a step that supersedes the key named here.",
                step=twin.id,
                key=newest,
            )
    if step.supersedes:
        refused = _superseded_already(draft, run, step)
        if refused is not None:
            return refused
    own = draft.claim(tool=step.tool, key=step.key)
    place_of = {step.supersedes, own.supersedes if own is not None else ""} - {""}
    for key in sorted(place_of):
        answer = _chain_behind(draft, run, step, key)
        if answer is not None:
            return answer
    return None


def _superseded_already(draft: Draft, run: Run, step: Step) -> StartRefused | None:
    old = draft.claim(tool=step.tool, key=step.supersedes)
    winner = None if old is None else old.superseded_by
    if winner is not None and winner[0] != step.key:
        refused = Refused(
            Reason.SUPERSEDED_ALREADY,
            "The key was superseded already, which works once. Nothing was recorded. The winner is "
            "named here.",
            key=winner[0],
            run=winner[1],
            step=winner[2],
        )
        return StartRefused(refused, run.cancel_requested)
    return None


def _chain_behind(draft: Draft, run: Run, step: Step, key: str) -> StartRefused | None:
    """Every key whose place was taken, back to the first of them, is still spent without effect.

    Asked at each start, also of a key that took the place before: one may have been decided
    executed since, or a success have been reported, and what stands for it must not run then.
    """
    while key:
        old = draft.claim(tool=step.tool, key=key)
        if old is None or not old.supersedable or _executed_earlier(draft, old) is not None:
            return _refused(
                run,
                Reason.NOT_SUPERSEDABLE,
                "The key to supersede is neither failed nor decided not_executed. Nothing was "
                "recorded. Settle it first.",
                step=step.id,
                key=key,
            )
        if old.contradicted_by:
            return _refused(
                run,
                Reason.CONTRADICTION,
                "A report contradicts the decision on the key that this step supersedes. Nothing "
                "was recorded, and the tool must not run. Have a superseding decision made first.",
                step=old.contradicted_by[0][1],
                key=old.key,
            )
        key = old.supersedes
    return None


def _newest_of_chain(draft: Draft, twin: Step) -> str:
    """The last key of the chain of supersessions that begins at the twin's key."""
    key = twin.key
    claim = draft.claim(tool=twin.tool, key=key)
    while claim is not None and claim.superseded_by is not None:
        key = claim.superseded_by[0]
        claim = draft.claim(tool=twin.tool, key=key)
    return key


def _after(draft: Draft, run: Run, command: StartStep) -> Answer | None:
    """Check 12."""
    refused = what_it_waits_for(draft, run, _step_of(run, command))
    return None if refused is None else StartRefused(refused, run.cancel_requested)


def _execute(draft: Draft, run: Run, command: StartStep) -> Answer:
    step = _step_of(run, command)
    if len(step.attempts) >= ATTEMPTS_MAX:
        return _refused(
            run,
            Reason.LIMIT_EXCEEDED,
            f"The step was started {ATTEMPTS_MAX} times. Nothing was recorded. Plan a new step.",
            step=step.id,
        )
    most = draft.policy.open_steps_max
    if step.state is not StepState.PLANNED and run.open_steps >= most:
        return _refused(
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
