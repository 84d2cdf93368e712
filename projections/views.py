"""Folded runs, steps and unknowns by page: what readers are shown of the inline projections."""

from __future__ import annotations

from typing import Final

from ledger.core.answers import UnknownStep
from ledger.core.log import Log
from ledger.core.run import Run
from ledger.core.step import Step
from ledger.store.interface import Reading
from ledger.store.rows import number, text
from ledger.store.tables import LEASES, RUNS, STEPS, UNKNOWNS, Row
from projections.resume import run_of_row, set_lease, step_of_row
from projections.unknowns import unknowns_of_rows

_PAGE: Final = 1_000


class Views:
    """Reads; see `ledger.reading.ViewRows`."""

    def run(self, reading: Reading, log: Log, run_id: str) -> Run | None:
        """The run with its newest lease, without its steps."""
        rows = reading.get(RUNS, [(log.tenant, run_id)])
        if not rows:
            return None
        run = run_of_row(log, rows[0])
        for row in reading.get(LEASES, [(log.tenant, run_id)]):
            set_lease(run, row)
        return run

    def runs(
        self,
        reading: Reading,
        log: Log,
        *,
        open_only: bool,
        after: tuple[int, str] | None,
        limit: int,
    ) -> list[Run]:
        """Runs by (time of last change, id), newest first, with their leases, without steps."""
        equal = {"tenant": log.tenant, "status": ""} if open_only else {"tenant": log.tenant}
        rows = reading.page(
            RUNS,
            equal=equal,
            order=("changed_us", "run"),
            after=after,
            descending=True,
            limit=limit,
        )
        runs = [run_of_row(log, row) for row in rows]
        by_id: dict[str, Run] = {run.run_id: run for run in runs}
        keys: list[Row] = [(log.tenant, run_id) for run_id in by_id]
        for row in reading.get(LEASES, keys) if keys else []:
            set_lease(by_id[text(row[1])], row)
        return runs

    def steps(
        self, reading: Reading, log: Log, run_id: str, *, after: int, limit: int
    ) -> list[Step]:
        """Steps in the order they were planned, from ordinal `after` + 1 on."""
        rows = reading.page(
            STEPS,
            equal={"tenant": log.tenant, "run": run_id},
            order=("ordinal",),
            after=(after,),
            limit=limit,
        )
        return [step_of_row(row) for row in rows]

    def steps_changed(self, reading: Reading, log: Log, run_id: str, *, since: int) -> list[Step]:
        """Every step that an entry above run version `since` touched, by that version."""
        return [step_of_row(row) for row in _changed(reading, log, run_id, since)]

    def unknowns(
        self,
        reading: Reading,
        log: Log,
        *,
        run: str,
        after: tuple[int, int, str, str] | None,
        limit: int,
    ) -> list[tuple[int, UnknownStep]]:
        """(rank, step) waiting for a decision, by (rank, since, run, step). `run` empty: of all."""
        equal = {"tenant": log.tenant, "run": run} if run else {"tenant": log.tenant}
        rows = reading.page(
            UNKNOWNS,
            equal=equal,
            order=("rank", "since_us", "run", "step"),
            after=after,
            limit=limit,
        )
        ranks = [number(row[3]) for row in rows]
        return list(zip(ranks, unknowns_of_rows(reading, rows), strict=True))


def _changed(reading: Reading, log: Log, run_id: str, since: int) -> list[Row]:
    """Rows of the steps touched above a run version. -1: all of them."""
    found: list[Row] = []
    after: Row | None = None
    while True:
        rows = reading.page(
            STEPS,
            equal={"tenant": log.tenant, "run": run_id},
            order=("changed_version", "ordinal"),
            after=after,
            greater={"changed_version": since},
            limit=_PAGE,
        )
        found += rows
        if len(rows) < _PAGE:
            return found
        after = (rows[-1][5], rows[-1][2])
