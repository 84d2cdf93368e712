"""The pages that the product asks for, and so the orders that the indexes must give."""

from __future__ import annotations

from typing import Final

from ledger.store.statements import PageShape
from ledger.store.tables import (
    CHECKPOINTS,
    ENTRIES,
    LEASES,
    REPLAYS,
    REQUESTS,
    RUNS,
    STEPS,
    SUBJECTS,
    TILES,
    UNKNOWNS,
    Table,
)


def _shape(
    table: Table,
    equal: str,
    order: str,
    *,
    resumes: bool = False,
    greater: str = "",
    descending: bool = False,
) -> PageShape:
    return PageShape(
        table=table,
        equal=tuple(equal.split()),
        equal_null=(),
        order=tuple(order.split()),
        resumes=resumes,
        greater=tuple(greater.split()),
        descending=descending,
    )


PAGES: Final = {
    "entries of a log": _shape(ENTRIES, "log", "idx", resumes=True),
    "the newest entries of a log": _shape(ENTRIES, "log", "idx", descending=True),
    "entries of a run": _shape(ENTRIES, "log run", "version", resumes=True),
    "tiles of a level": _shape(TILES, "log level", "idx", resumes=True),
    "runs as they changed": _shape(RUNS, "tenant", "changed_us run", resumes=True),
    "runs that changed last": _shape(RUNS, "tenant", "changed_us run", descending=True),
    "runs that changed before": _shape(
        RUNS, "tenant", "changed_us run", resumes=True, descending=True
    ),
    "steps of a run": _shape(STEPS, "tenant run", "ordinal", resumes=True),
    "steps that changed since": _shape(
        STEPS, "tenant run", "changed_version ordinal", greater="changed_version"
    ),
    "unknowns": _shape(UNKNOWNS, "tenant", "rank since_us run step", resumes=True),
    "unknowns of a rank": _shape(UNKNOWNS, "tenant rank", "since_us run step", resumes=True),
    "leases that fall due": _shape(LEASES, "tenant", "due_us run", greater="due_us"),
    "replays of a key": _shape(REPLAYS, "tenant tool key", "run step", resumes=True),
    "requests of a principal": _shape(REQUESTS, "tenant principal", "request_id", resumes=True),
    "runs of a subject": _shape(SUBJECTS, "tenant subject", "run", resumes=True),
    "checkpoints of a log": _shape(CHECKPOINTS, "log", "size", descending=True),
}
