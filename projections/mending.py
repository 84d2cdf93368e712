"""Checking the inline projections of a log against its entries, and putting them right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ledger.core.log import Log
from ledger.core.policy import Policy
from ledger.core.run_events import SealedRef
from ledger.store.interface import Reading, Store
from ledger.store.rows import blob
from ledger.store.tables import ENTRIES, LEASES, Row, Table, Value
from projections.rebuild import REBUILT, Difference, Rebuild, differences

_PAGE: Final = 500
_KEPT_OF_LEASES: Final = ("expires_us", "due_us")

Progress = Callable[[int, int], None]
"""Told how many entries of how many were read."""

Fingerprint = Callable[[Reading, Log, SealedRef, str], bytes]
"""The keyed digest of sealed arguments of a tool, empty where they were erased."""


@dataclass(frozen=True, slots=True)
class Mending:
    """What is needed to fold one log: its store, and what opens arguments to compare."""

    store: Store
    fingerprint: Fingerprint
    log: Log
    policy: Policy | None = None

    def check(self, progress: Progress) -> list[Difference]:
        """Every row that is not as the log says, from one snapshot: servers may go on appending."""
        with self.store.read() as reading:
            size = reading.head(self.log.number).size
            made = self._rows(reading, size, progress)
            return differences(reading, self.log, made)

    def rebuild(self, progress: Progress) -> list[Difference]:
        """Replaces the rows that differ, and answers what they were.

        One transaction under the head's lock: appends of running servers wait, and after a death
        in the middle the tables are as before. What the log does not decide of a lease stays, while
        it is the same one.
        """
        with self.store.append(self.log.number) as changing:
            made = self._rows(changing, changing.locked_head.size, progress)
            found = differences(changing, self.log, made)
            for table in REBUILT:
                wrong = {each.key: each for each in found if each.table == table.name}
                right = [row for row in made[table.name] if _key(table, row) in wrong]
                if table is LEASES:
                    stored = {_key(table, row): row for row in changing.get(table, [*wrong])}
                    right = [_with_renewals(row, stored.get(_key(table, row))) for row in right]
                changing.delete(table, [key for key, each in wrong.items() if each.rebuilt is None])
                changing.upsert(table, right)
        return found

    def _rows(self, reading: Reading, size: int, progress: Progress) -> dict[str, list[Row]]:
        rebuild = Rebuild(
            self.log,
            fingerprint=lambda ref, tool: self.fingerprint(reading, self.log, ref, tool),
            policy=self.policy,
        )
        done = 0
        while done < size:
            page = reading.page(
                ENTRIES,
                equal={"log": self.log.number},
                order=("idx",),
                after=(done - 1,),
                limit=min(_PAGE, size - done),
            )
            for row in page:
                rebuild.take(blob(row[5]))
            done += len(page)
            progress(done, size)
        return rebuild.rows()


def columns_of(difference: Difference) -> list[str]:
    """The columns that differ; none where the row is missing or too many."""
    ours, theirs = difference.rebuilt, difference.stored
    if ours is None or theirs is None:
        return []
    return [name for name, value in ours.items() if theirs[name] != value]


def key_of(difference: Difference) -> Sequence[Value]:
    """The row's key without its tenant: ids only, never a payload."""
    return difference.key[1:]


def _key(table: Table, row: Row) -> Row:
    named = dict(zip(table.names, row, strict=True))
    return tuple(named[column] for column in table.key)


def _with_renewals(row: Row, stored: Row | None) -> Row:
    named = dict(zip(LEASES.names, row, strict=True))
    before = dict(zip(LEASES.names, stored, strict=True)) if stored is not None else {}
    if before.get("token") == named["token"]:
        named |= {column: before[column] for column in _KEPT_OF_LEASES}
    return tuple(named.values())
