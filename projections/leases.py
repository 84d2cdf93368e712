"""Inline projection `leases`: the newest lease of each run, and when something falls due on it."""

from __future__ import annotations

from ledger.core.log import Log
from ledger.core.run import Run
from ledger.core.step import DEAD_MARGIN_US
from ledger.core.vocabulary import LeaseEnd, StepState
from ledger.store.inline import Touched
from ledger.store.interface import Changing
from ledger.store.tables import LEASES, Row


class LeaseRows:
    """Writes leases."""

    def write(self, changing: Changing, touched: Touched) -> None:
        """One row for each run of the batch that ever had a lease, swept ones included: a renewal
        leaves `due_us` behind, and the sweep that finds nothing due moves it on."""
        runs = {run.run_id: run for run, _ in touched.draft.touched_runs()}
        runs |= {run.run_id: run for run in touched.draft.reassessed.values()}
        rows = [lease_row(touched.log, run) for run in runs.values() if run.lease.token]
        changing.upsert(LEASES, rows)


def lease_row(log: Log, run: Run) -> Row:
    """A lease's row."""
    lease = run.lease
    return (
        log.tenant,
        run.run_id,
        lease.token,
        lease.holder,
        lease.principal,
        lease.process,
        lease.expires_us,
        lease.ended.value,
        due_us(run),
    )


def due_us(run: Run) -> int | None:
    """The earliest time at which the sweep may find something due on the run, None for never."""
    if run.is_closed:
        return None
    lease = run.lease
    live = lease.ended is LeaseEnd.NOT_ENDED
    times = [lease.expires_us] if live else []
    for step in run.in_state(StepState.STARTED):
        attempt = step.attempt
        if attempt.token == lease.token and live:
            times.append(attempt.deadline_us + DEAD_MARGIN_US)
        else:
            times.append(attempt.deadline_us)
    return min(times, default=None)
