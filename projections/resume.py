"""Inline projection `resume`: folded runs and steps, from which a run is loaded without its
entries.

One row a run, one a step; a batch writes only the rows it changed, however long the run is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import orjson

from ledger.core.ids import RunId
from ledger.core.log import Log
from ledger.core.run import Run
from ledger.core.step import Step
from ledger.core.vocabulary import LeaseEnd, RunStatus
from ledger.store.inline import Touched
from ledger.store.interface import Changing, Reading
from ledger.store.rows import blob, number, text
from ledger.store.tables import LEASES, RUNS, STEPS, Row

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PAGE: Final = 1_000


class ResumeRows:
    """Reads and writes folded runs."""

    def write(self, changing: Changing, touched: Touched) -> None:
        """One row for each run of the batch, one for each step that it changed."""
        draft, log = touched.draft, touched.log
        runs: list[Row] = []
        steps: list[Row] = []
        for run, changed in draft.touched_runs():
            run.leaf = touched.leaves[run.run_id]
            runs.append(run_row(log, run))
            steps.extend(step_row(log, run, step) for step in changed)
        changing.upsert(RUNS, runs)
        changing.upsert(STEPS, steps)

    def load(
        self, reading: Reading, log: Log, run_ids: Sequence[str], known: Mapping[str, Run]
    ) -> dict[str, Run]:
        """The runs that exist; see `ledger.inline.RunRows`."""
        loaded: dict[str, Run] = {}
        for row in reading.get(RUNS, [(log.tenant, run_id) for run_id in run_ids]):
            run_id = text(row[1])
            run = known.get(run_id)
            if row[6]:
                run = run_of_row(log, row)
            elif run is None or run.version != number(row[3]) + 1:
                since = -1 if run is None else run.version - 1
                run = run or Run.blank(f"{log.origin}#{run_id}", _EPOCH)
                _fill(run, row)
                self._load_changed(reading, log, run, since=since)
            loaded[run_id] = run
        self.refresh_leases(reading, log, loaded)
        return loaded

    def load_steps(self, reading: Reading, log: Log, named: Sequence[tuple[Run, str]]) -> None:
        """Adds steps one by one; see `ledger.inline.RunRows`."""
        runs = {run.run_id: run for run, _ in named}
        keys: list[Row] = [(log.tenant, run.run_id, step) for run, step in named]
        for row in reading.get_by(STEPS, ("tenant", "run", "step"), keys):
            runs[RunId(text(row[1]))].add_step(step_of_row(row))

    def _load_changed(self, reading: Reading, log: Log, run: Run, *, since: int) -> None:
        """Steps that changed after a version of the run, which makes it whole. -1: all of them."""
        after: Row | None = None
        while True:
            rows = reading.page(
                STEPS,
                equal={"tenant": log.tenant, "run": run.run_id},
                order=("changed_version", "ordinal"),
                after=after,
                greater={"changed_version": since},
                limit=_PAGE,
            )
            for row in rows:
                run.add_step(step_of_row(row))
            if len(rows) < _PAGE:
                run.is_whole = True
                return
            after = (rows[-1][5], rows[-1][2])

    def refresh_leases(self, reading: Reading, log: Log, runs: Mapping[str, Run]) -> None:
        """The leases as renewals left them, locked; see `ledger.inline.RunRows`."""
        keys: list[Row] = [(log.tenant, run_id) for run_id in sorted(runs)]
        for row in reading.get(LEASES, keys, lock=True) if keys else []:
            set_lease(runs[text(row[1])], row)


def run_row(log: Log, run: Run) -> Row:
    """A run's row."""
    return (
        log.tenant,
        run.run_id,
        log.number,
        run.version - 1,
        run.index,
        run.leaf,
        run.status.value if run.status else "",
        run.changed_us,
        orjson.dumps(run.dump()),
    )


def step_row(log: Log, run: Run, step: Step) -> Row:
    """A step's row."""
    return (
        log.tenant,
        run.run_id,
        step.ordinal,
        step.id,
        step.state.value,
        step.changed_version,
        orjson.dumps(step.dump()),
    )


def run_of_row(log: Log, row: Row) -> Run:
    """A run without its steps and lease, for lists."""
    run = Run.blank(f"{log.origin}#{text(row[1])}", _EPOCH)
    _fill(run, row)
    return run


def step_of_row(row: Row) -> Step:
    """The step of a row."""
    return Step.load(orjson.loads(blob(row[6])))


def _fill(run: Run, row: Row) -> None:
    run.version = number(row[3]) + 1
    run.index = number(row[4])
    run.leaf = blob(row[5])
    run.status = RunStatus(text(row[6])) if row[6] else None
    run.changed_us = number(row[7])
    run.load(orjson.loads(blob(row[8])))


def set_lease(run: Run, row: Row) -> None:
    """Takes a lease's row over; what only the fold knows stays."""
    lease = run.lease
    lease.token = number(row[2])
    lease.holder = text(row[3])
    lease.principal = text(row[4])
    lease.process = text(row[5])
    lease.expires_us = number(row[6])
    lease.ended = LeaseEnd(text(row[7]))
