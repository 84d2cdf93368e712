"""Writes that wait for the end of their block, so that they travel together.

Both stores hold them back: an insert never meets its duplicate before the block is left, a read in
the block never sees them, and the order in which they take effect is the order of the calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ledger.core.errors import InvariantViolation
from ledger.store.tables import Row, Table
from ledger.store.values import check_rows, columns_named, key_of

Effect = Literal["insert", "upsert", "delete"]


@dataclass(frozen=True, slots=True)
class Write:
    """Rows for one table with one effect: whole rows, or primary keys for a delete."""

    effect: Effect
    table: Table
    rows: list[Row]


Flight = tuple[Write, ...]
"""Writes on distinct tables: their order among each other does not matter."""


@dataclass(slots=True)
class HeldWrites:
    """The writes of one block, in order, gathered so that few statements carry them."""

    _flights: list[dict[str, Write]] = field(default_factory=list)
    _ended: bool = False

    def add(self, effect: Effect, table: Table, rows: Sequence[Row]) -> None:
        """Checks and keeps rows. Raises ValueError for values that a store cannot keep."""
        if self._ended:
            raise InvariantViolation("a block was written to after it was left")
        names = table.key if effect == "delete" else table.names
        check_rows(columns_named(table, names), rows)
        if effect == "upsert" and len(set(map(key_of(table), rows))) != len(rows):
            raise InvariantViolation(f"one upsert into {table.name} names a key twice")
        if rows:
            self._place(effect, table).extend(rows)

    def take(self) -> list[Flight]:
        """Hands over what is held, to be sent flight by flight, and forgets it."""
        flights = [tuple(map(_last_of_each_key, flight.values())) for flight in self._flights]
        self._flights.clear()
        return flights

    def end(self) -> None:
        """What is added from here on would be lost in silence, so it is refused."""
        self._ended = True

    def _place(self, effect: Effect, table: Table) -> list[Row]:
        """Where rows go: beside earlier ones of the same effect, or, where the table already has
        writes of another effect in the flight, into the next flight."""
        if self._flights:
            written = self._flights[-1].get(table.name)
            if written is None:
                return self._start(effect, table)
            if written.effect == effect:
                return written.rows
        self._flights.append({})
        return self._start(effect, table)

    def _start(self, effect: Effect, table: Table) -> list[Row]:
        write = Write(effect, table, [])
        self._flights[-1][table.name] = write
        return write.rows


def _last_of_each_key(write: Write) -> Write:
    match write.effect:
        case "insert":
            return write
        case "delete":
            return Write(write.effect, write.table, list(dict.fromkeys(write.rows)))
        case "upsert":
            keys = map(key_of(write.table), write.rows)
            last = dict(zip(keys, write.rows, strict=True))
            return Write(write.effect, write.table, list(last.values()))
