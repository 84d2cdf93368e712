"""Inline projection `unknowns`: what waits for a decision, by effect class, then age."""

from __future__ import annotations

from dataclasses import asdict

import orjson

from ledger.core.answers import UnknownStep
from ledger.core.decide.guards import unknown_of
from ledger.core.log import Log
from ledger.core.policy import Policy
from ledger.core.run import Run
from ledger.core.step import Step
from ledger.store.inline import Touched
from ledger.store.interface import Changing
from ledger.store.rows import blob
from ledger.store.tables import UNKNOWNS, Row


class UnknownRows:
    """Writes the list of unknowns."""

    def write(self, changing: Changing, touched: Touched) -> None:
        """Adds what became unknown or contradicted, and removes what was settled."""
        listed: list[Row] = []
        settled: list[Row] = []
        for run, changed in touched.draft.touched_runs():
            for step in changed:
                if step.is_listed:
                    listed.append(unknown_row(touched.log, run, step, touched.draft.policy))
                elif step.since_us:
                    settled.append((touched.log.tenant, run.run_id, step.id))
        changing.delete(UNKNOWNS, settled)
        changing.upsert(UNKNOWNS, listed)


def unknown_row(log: Log, run: Run, step: Step, policy: Policy) -> Row:
    """The row of a step that waits for a decision. Rank 0 are the writes that double."""
    unknown = unknown_of(run, step, policy)
    return (
        log.tenant,
        run.run_id,
        step.id,
        3 - step.effect.rank,
        step.since_us,
        step.version,
        orjson.dumps(asdict(unknown)),
    )


def unknown_of_row(row: Row) -> UnknownStep:
    """What a row of the list says."""
    return UnknownStep(**orjson.loads(blob(row[6])))
