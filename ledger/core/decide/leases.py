"""Acquiring, releasing and breaking leases (contract, section 6; rules, section 2)."""

from __future__ import annotations

from ledger.core import events
from ledger.core.answers import Answer, LeaseEnded, LeaseGranted
from ledger.core.commands import AcquireLease, BreakLease, ReleaseLease
from ledger.core.decide.guards import (
    abandon_started,
    close_if_cancelled,
    open_run,
    run_closed,
    settle_dead,
    stale_lease,
)
from ledger.core.draft import Draft
from ledger.core.refusals import Reason, Refused
from ledger.core.run import Run
from ledger.core.times import format_time
from ledger.core.vocabulary import LeaseEnd


def decide_acquire(draft: Draft, command: AcquireLease, *, before: LeaseGranted | None) -> Answer:
    """A token one higher than any before, unless somebody holds the run.

    `before` is the lease that this request id acquired. It is answered again to the same process
    while its token is newest, ended or not; otherwise the present state answers, and never with a
    second lease.
    """
    run = open_run(draft, command.run)
    if isinstance(run, Refused):
        return run
    settle_dead(draft, run)
    if run.is_closed:
        return run_closed(run)
    lease = run.lease
    same_process = lease.process == command.process
    if before is not None and before.token == lease.token and same_process:
        return granted(draft, run)
    if lease.is_live(draft.now_us):
        if same_process:
            return granted(draft, run)
        return Refused(
            Reason.LEASE_HELD,
            f"The run is driven by {lease.holder}. Nothing was recorded. Wait until the lease "
            "ends, or have an admin break it.",
            run=run.run_id,
            details={"holder": lease.holder, "until": format_time(lease.expires_us)},
        )
    if before is not None:
        return Refused(
            Reason.ACQUIRE_ALREADY_USED,
            "The lease that this request acquired has ended. Nothing was recorded. Acquire again "
            "with a new request id.",
            run=run.run_id,
        )
    draft.record(
        run,
        events.LeaseAcquired(
            token=lease.token + 1,
            holder=command.holder,
            process=command.process,
            expires_at=draft.now_us + command.ttl_ms * 1000,
        ),
    )
    return granted(draft, run)


def granted(draft: Draft, run: Run) -> LeaseGranted:
    """The newest lease, as its holder is told of it."""
    lease = run.lease
    return LeaseGranted(
        token=lease.token,
        holder=lease.holder,
        principal=lease.principal,
        expires_us=lease.expires_us,
        now_us=draft.now_us,
        cancel_requested=run.cancel_requested,
    )


def decide_release(draft: Draft, command: ReleaseLease) -> Answer:
    """Ends the caller's lease and abandons what was started under it; the attempt of an earlier
    token waits for its deadline (rules, section 3). Ended before: answered, no event."""
    run = open_run(draft, command.run)
    if isinstance(run, Refused):
        return run
    if command.token != run.lease.token:
        return stale_lease(run)
    if run.lease.ended is LeaseEnd.NOT_ENDED and run.lease.is_live(draft.now_us):
        draft.record(
            run, events.LeaseReleased(token=command.token, stop_reason=command.stop_reason)
        )
        abandon_started(draft, run, cause="lease_released", token=command.token)
        settle_dead(draft, run)
    return LeaseEnded()


def decide_break(draft: Draft, command: BreakLease) -> Answer:
    """Ends whoever's lease it is and abandons what was started, at once."""
    run = open_run(draft, command.run)
    if isinstance(run, Refused):
        return run
    lease = run.lease
    if lease.token and lease.ended is LeaseEnd.NOT_ENDED and lease.is_live(draft.now_us):
        draft.record(run, events.LeaseBroken(token=lease.token, reason=command.reason))
    else:
        settle_dead(draft, run)
    if not run.is_closed:
        abandon_started(draft, run, cause="lease_broken")
        close_if_cancelled(draft, run)
    return LeaseEnded()
