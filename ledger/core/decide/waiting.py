"""What a step waits for (rules, section 4, `after`). StartStep and GetResumeState share it."""

from __future__ import annotations

from typing import Protocol

from ledger.core.claims import Claim
from ledger.core.refusals import Reason, Refused
from ledger.core.run import Run
from ledger.core.step import Step
from ledger.core.vocabulary import SETTLED_WELL, StepState


class Claims(Protocol):
    """Where claims are looked up."""

    def claim(self, *, tool: str, key: str) -> Claim | None:
        """The claim on a key, or None if it is free."""


def what_it_waits_for(claims: Claims, run: Run, step: Step) -> Refused | None:
    """None when every step that it names in `after` is settled well or superseded by one that
    is."""
    for before in step.after:
        predecessor = run.steps[before]
        if predecessor.contradiction:
            return _waiting(run, predecessor, "a report contradicts how it was settled")
        if predecessor.state in SETTLED_WELL:
            continue
        refused = _of_unsettled(claims, run, predecessor)
        if refused is not None:
            return refused
    return None


def _of_unsettled(claims: Claims, run: Run, predecessor: Step) -> Refused | None:
    match predecessor.state:
        case StepState.WITHDRAWN:
            return _ended(run, predecessor)
        case StepState.FAILED | StepState.RECONCILED_NOT_EXECUTED if predecessor.is_write:
            claim = claims.claim(tool=predecessor.tool, key=predecessor.key)
            if claim is None or claim.superseded_by is None:
                if predecessor.state is StepState.FAILED:
                    return _ended(run, predecessor)
                return _waiting(run, predecessor, "its key is abandoned and not yet superseded")
            return _of_superseding(claims, run, predecessor, claim)
        case _:
            return _waiting(run, predecessor, f"it is {predecessor.state.value}")


def _of_superseding(claims: Claims, run: Run, predecessor: Step, claim: Claim) -> Refused | None:
    """Follows the chain of supersessions to its end."""
    newest: Claim | None = claim
    while newest is not None and newest.superseded_by is not None:
        newest = claims.claim(tool=newest.tool, key=newest.superseded_by[0])
    if newest is None:
        return _waiting(run, predecessor, "what supersedes it is not settled")
    if newest.contradicted_by:
        return _waiting(run, predecessor, "a report contradicts what supersedes it")
    if newest.state in SETTLED_WELL:
        return None
    if newest.state is StepState.FAILED:
        return _ended(run, predecessor)
    return _waiting(run, predecessor, f"what supersedes it is {newest.state.value}")


def _waiting(run: Run, predecessor: Step, why: str) -> Refused:
    return Refused(
        Reason.WAITING,
        f"The step waits for another one, and {why}. Nothing was recorded. Ask again when that "
        "one is settled.",
        run=run.run_id,
        step=predecessor.id,
        details={"state": predecessor.state.value},
    )


def _ended(run: Run, predecessor: Step) -> Refused:
    return Refused(
        Reason.PREDECESSOR_ENDED,
        f"The step waits for one that ended as {predecessor.state.value}. Nothing was recorded. "
        "Withdraw this step and plan anew.",
        run=run.run_id,
        step=predecessor.id,
        details={"state": predecessor.state.value},
    )
