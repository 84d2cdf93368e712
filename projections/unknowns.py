"""Inline projection `unknowns`: what waits for a decision, by effect class, then age."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import orjson

from ledger.core.answers import UnknownStep, dump_unknown, load_unknown
from ledger.core.decide.guards import unknown_of
from ledger.core.log import Log
from ledger.core.policy import Policy
from ledger.core.run import Run
from ledger.core.step import Step
from ledger.store.inline import Touched
from ledger.store.interface import Changing, Reading
from ledger.store.rows import blob, text
from ledger.store.tables import STEPS, UNKNOWNS, Row
from projections.resume import step_of_row

_DECISION: Final = b'"decision_index":'


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
        orjson.dumps(dump_unknown(unknown)),
    )


def unknown_of_row(row: Row) -> UnknownStep:
    """What a row of the list says."""
    return load_unknown(orjson.loads(blob(row[6])))


def unknowns_of_rows(reading: Reading, rows: Sequence[Row]) -> list[UnknownStep]:
    """What rows of the list say, in their order.

    Rows of release 0.1.0 do not hold the standing decision; it is read with their steps.
    """
    old: list[Row] = [row[:3] for row in rows if _DECISION not in blob(row[6])]
    decided: dict[tuple[str, str], int] = {}
    for row in reading.get_by(STEPS, ("tenant", "run", "step"), old) if old else []:
        decided[(text(row[1]), text(row[3]))] = step_of_row(row).decision_index
    found = [unknown_of_row(row) for row in rows]
    return [
        replace(one, decision_index=decided.get((one.run, one.step), one.decision_index))
        for one in found
    ]
