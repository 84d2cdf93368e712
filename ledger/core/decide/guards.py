"""Checks that several commands share, and what is due on a run whose holder may be dead."""

from __future__ import annotations

from ledger.core import events
from ledger.core.answers import StandingProposal, UnknownStep
from ledger.core.draft import Draft
from ledger.core.policy import Policy
from ledger.core.refusals import Reason, Refused
from ledger.core.run import Run
from ledger.core.step import Step
from ledger.core.times import format_time
from ledger.core.vocabulary import LeaseEnd, Outcome, RunStatus, StepState


def open_run(draft: Draft, run_id: str) -> Run | Refused:
    """The run, if it exists, is open, and holds nothing that this build does not understand."""
    run = draft.run(run_id)
    if run is None:
        return run_not_found(run_id)
    if run.is_closed:
        return run_closed(run)
    run.require_whole()
    return not_understood(run) or run


def run_not_found(run_id: str) -> Refused:
    """No such run for this tenant."""
    return Refused(
        Reason.RUN_NOT_FOUND,
        "There is no run of this id. Nothing was recorded. Open the run first.",
        run=run_id,
    )


def not_understood(run: Run) -> Refused | None:
    """Why nobody may drive, decide or resume the run through this build; None if it may be."""
    types = run.not_understood
    if not types:
        return None
    return Refused(
        Reason.WRONG_STATE,
        "The run holds entries of a type that this server does not understand. Nothing was "
        "recorded. Drive it through a server of the newer release.",
        run=run.run_id,
        details={"types": ",".join(types)},
    )


def run_closed(run: Run) -> Refused:
    """The run is closed."""
    status = run.status.value if run.status else ""
    return Refused(
        Reason.RUN_CLOSED,
        f"The run is closed as {status}. Nothing was recorded. Only decisions and evidence may "
        "follow; open another run to go on.",
        run=run.run_id,
        details={"status": status, "reason": run.reason},
    )


def driven_run(draft: Draft, run_id: str, *, token: int, process: str) -> Run | Refused:
    """The open run, if the caller drives it: token newest, nonce its own, lease live (rules §2)."""
    run = open_run(draft, run_id)
    if isinstance(run, Refused):
        return run
    lease = run.lease
    if token != lease.token:
        return stale_lease(run)
    if process != lease.process:
        return Refused(
            Reason.LEASE_OF_ANOTHER_PROCESS,
            "The lease belongs to another process. Nothing was recorded. Acquire a lease of your "
            "own; a forked or restarted process never drives under its parent's.",
            run=run.run_id,
        )
    if not lease.is_live(draft.now_us):
        return Refused(
            Reason.LEASE_EXPIRED,
            "The lease has ended. Nothing was recorded. Acquire a new lease and read the resume "
            "state before going on.",
            run=run.run_id,
            details={"expired_at": format_time(lease.expires_us)},
        )
    return run


def stale_lease(run: Run) -> Refused:
    """The token is not the newest."""
    return Refused(
        Reason.STALE_LEASE,
        "This token is not the run's newest. Nothing was recorded. Stop driving; acquire a lease "
        "to go on.",
        run=run.run_id,
        details={"newest_token": str(run.lease.token)},
    )


def settle_dead(draft: Draft, run: Run) -> None:
    """Performs what is due on a run (rules, section 3): expiry once per token, then UNKNOWN for
    writes of dead holders and FAILED(holder_lost) for the rest, then a due cancel.

    The one rule that every caller shares, the sweep included: whoever meets it first does it.
    """
    if run.is_closed or run.not_understood:
        return
    _expire(draft, run, cause="holder_dead")
    for step in run.in_state(StepState.STARTED):
        if run.holder_is_dead(step, draft.now_us):
            abandon_attempt(draft, run, step, cause="holder_dead")
    close_if_cancelled(draft, run)


def _expire(draft: Draft, run: Run, *, cause: str) -> None:
    """Once per token, even when operation deadlines are still ahead (rules, section 2)."""
    lease = run.lease
    if lease.token and lease.ended is LeaseEnd.NOT_ENDED and lease.expires_us <= draft.now_us:
        draft.record_own(run, events.LeaseExpired(token=lease.token), cause=cause)


def abandon_started(draft: Draft, run: Run, *, cause: str, token: int | None = None) -> None:
    """What is started is abandoned at once: by an admin's break all of it, by a holder's release
    what was started under its own `token`. An earlier holder's attempt may still be running."""
    for step in run.in_state(StepState.STARTED):
        if token is None or step.attempt.token == token:
            abandon_attempt(draft, run, step, cause=cause)


def abandon_attempt(draft: Draft, run: Run, step: Step, *, cause: str) -> None:
    """A write becomes UNKNOWN; READ_ONLY and PROPOSE are closed as FAILED(holder_lost)."""
    attempt = step.attempt
    if step.is_write:
        body: events.StepUnknown | events.StepCompleted = events.StepUnknown(
            step=step.id, attempt=attempt.number, token=attempt.token, cause=cause
        )
    else:
        body = events.StepCompleted(
            step=step.id,
            attempt=attempt.number,
            token=attempt.token,
            outcome=Outcome.FAILED,
            state=StepState.FAILED,
            cause="holder_lost",
        )
    draft.record_own(run, body, cause=cause)


def close_if_cancelled(draft: Draft, run: Run) -> bool:
    """With no live lease and nothing STARTED, the ledger closes a cancelled run, once."""
    if run.is_closed or not run.cancel_requested:
        return False
    if run.lease.is_live(draft.now_us) or run.open_states[StepState.STARTED]:
        return False
    cause = "cancel_requested"
    _expire(draft, run, cause=cause)
    for step in run.in_state(StepState.PLANNED):
        body = events.StepWithdrawn(step=step.id, reason="cancelled")
        draft.record_own(run, body, cause=cause)
    closed = events.RunClosed(status=RunStatus.CANCELLED, reason=cause)
    draft.record_own(run, closed, cause=cause)
    return True


def unknown_step(draft: Draft, run: Run, step: Step) -> UnknownStep:
    """What a reviewer needs of a step, and the very ids that Reconcile takes."""
    return unknown_of(run, step, draft.policy)


def unknown_of(run: Run, step: Step, policy: Policy) -> UnknownStep:
    """The same, outside a draft: for the list of unknowns."""
    return UnknownStep(
        run=run.run_id,
        step=step.id,
        expected_version=step.version,
        attempt=len(step.attempts),
        tool=step.tool,
        tool_version=step.tool_version,
        effect=step.effect.value,
        key=step.key,
        cause=step.cause or ("contradiction" if step.contradiction else ""),
        since_us=step.since_us,
        not_executed_from_us=not_executed_from_us(step, policy),
        state=step.state.value,
        contradiction=step.contradiction,
        decision_index=step.decision_index,
        proposals=tuple(
            StandingProposal(p.index, p.verdict.value, p.reason_code, p.proposer, p.proposed_us)
            for p in step.proposals
        ),
    )


def not_executed_from_us(step: Step, policy: Policy) -> int:
    """The earliest ledger time at which not_executed may be decided (rules, section 6)."""
    latest = step.latest_unsettled_deadline_us
    return latest + policy.margin_us(step.tool) if latest else 0
