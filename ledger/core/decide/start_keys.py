"""What a start meets on its key (rules, section 4, checks 8 to 11): its arguments, how it is
settled, equal actions of the run, and what it supersedes; and the directives that tell it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ledger.core import events
from ledger.core.answers import Answer, Held, OutcomeUnknown, Replay, StartRefused
from ledger.core.claims import SETTLED, Claim
from ledger.core.commands import StartStep
from ledger.core.decide.guards import settle_dead, unknown_step
from ledger.core.draft import Draft
from ledger.core.errors import InvariantViolation
from ledger.core.refusals import Reason, Refused
from ledger.core.run import Run
from ledger.core.step import Step
from ledger.core.vocabulary import SETTLED_WELL, Outcome, StepState

_WITHOUT_EFFECT: Final = frozenset(
    {StepState.NO_EFFECT, StepState.FAILED, StepState.RECONCILED_NOT_EXECUTED}
)


def of_key(draft: Draft, run: Run, command: StartStep) -> Answer | None:
    """Checks 8 and 9: the arguments first used with the key, then how the key stands."""
    step = step_of(run, command)
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
        return start_refused(
            run,
            Reason.KEY_CONFLICT,
            "The key was used before with other arguments. Nothing was recorded, and the tool must "
            "not run. Plan this action with a key of its own.",
            step=step.id,
            key=step.key,
        )
    return _key_state(draft, run, step, claim)


def _arguments_erased(run: Run, step: Step) -> StartRefused:
    return start_refused(
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
            return held(run, owner, holding)
    if claim.state is StepState.UNKNOWN:
        return _unknown_of_claim(draft, run, claim.run, claim.step)
    if claim.state in SETTLED:
        return _replay_from(draft, run, step, claim)
    if claim.state is StepState.RECONCILED_NOT_EXECUTED:
        return key_abandoned(run, step.id, step.key)
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
    return unknown(draft, run, *_claimant(draft, owner_id, owner_step))


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


def of_twins(draft: Draft, run: Run, command: StartStep) -> Answer | None:
    """Check 10: an equal action of the same run that is not settled answers for it."""
    step = step_of(run, command)
    if not step.is_write:
        return None
    for twin in draft.twins(run, step):
        if twin.state is StepState.STARTED:
            return held(run, run, twin)
        if twin.counts_as_unknown:
            return unknown(draft, run, run, twin)
    return None


def of_supersession(draft: Draft, run: Run, command: StartStep) -> Answer | None:
    """Check 11: what the step takes the place of, and what it would have to."""
    step = step_of(run, command)
    if not step.is_write:
        return None
    for twin in draft.twins(run, step):
        if twin.state not in (StepState.FAILED, StepState.RECONCILED_NOT_EXECUTED):
            continue
        newest = _newest_of_chain(draft, twin)
        if newest not in (step.key, step.supersedes):
            return start_refused(
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
            return start_refused(
                run,
                Reason.NOT_SUPERSEDABLE,
                "The key to supersede is neither failed nor decided not_executed. Nothing was "
                "recorded. Settle it first.",
                step=step.id,
                key=key,
            )
        if old.contradicted_by:
            return start_refused(
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


def start_refused(
    run: Run, reason: Reason, message: str, *, step: str, key: str = "", **details: str
) -> StartRefused:
    """A refusal that also tells whether the run was asked to stop."""
    refused = Refused(reason, message, step=step, run=run.run_id, key=key, details=details)
    return StartRefused(refused, run.cancel_requested)


def step_of(run: Run, command: StartStep) -> Step:
    """The step that a start names, once it is known to exist."""
    step = run.steps.get(command.step)
    if step is None:
        raise InvariantViolation("a check ran before the step was known to exist")
    return step


def key_abandoned(run: Run, step: str, key: str) -> StartRefused:
    """The key is spent without effect."""
    return start_refused(
        run,
        Reason.KEY_ABANDONED,
        "The key was decided not_executed and is spent. Nothing was recorded. Plan a new step "
        "whose key supersedes it; that works once.",
        step=step,
        key=key,
    )


def held(run: Run, owner: Run, step: Step) -> Held:
    """Somebody's attempt may still run, and until when."""
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


def unknown(draft: Draft, run: Run, owner: Run, step: Step) -> OutcomeUnknown:
    """Nobody can say what came of that step."""
    return OutcomeUnknown(unknown_step(draft, owner, step), run.cancel_requested)


def replay_own(draft: Draft, run: Run, step: Step) -> Replay:
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
