"""What a store promises.

A store keeps the tables of `tables`. It knows nothing of runs, steps or keys: it reads rows by key,
writes rows, and orders appends by one lock. Every method may be called from any thread; a
transaction belongs to the thread that opened it.

Durability: when an append or change block is left without an exception, what it wrote survives
power loss. Order: appends of one log are ordered by the lock on its head row and by nothing else;
so `size` never has gaps, and a reader that sees index n sees every index below n. Errors:
`StoreUnavailable` means nothing happened; `CommitUnknown` means nobody can say; see `errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from ledger.store.tables import Row, Table, Value


@dataclass(frozen=True, slots=True)
class StoredHead:
    """A head row."""

    log: int
    origin: str
    size: int
    frontier: bytes
    time_us: int


class Reading(Protocol):
    """Reads in one consistent snapshot of committed rows."""

    def get(self, table: Table, keys: Sequence[Row], *, lock: bool = False) -> list[Row]:
        """Rows whose primary key is one of `keys`, in any order; missing ones are left out.

        `lock` keeps others from changing them until the transaction ends (only inside an append or
        a change).
        """

    def get_by(self, table: Table, columns: Sequence[str], values: Sequence[Row]) -> list[Row]:
        """Rows whose named columns equal one of `values`, in any order. Meant for unique
        columns."""

    def page(
        self,
        table: Table,
        *,
        equal: Mapping[str, Value],
        order: Sequence[str],
        after: Row | None = None,
        greater: Mapping[str, Value] | None = None,
        descending: bool = False,
        limit: int,
    ) -> list[Row]:
        """At most `limit` rows with `equal` columns, ordered by `order`, strictly after the row
        whose `order` values are `after`, and with each column of `greater` above its value. Costs
        O(limit) with the indexes of the migrations."""

    def head(self, log: int) -> StoredHead:
        """The head as this snapshot sees it. Raises `HeadMissing`."""


class Changing(Reading, Protocol):
    """A write transaction. Reads see what was committed before it; they need not see its own
    writes."""

    def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """Adds rows. A row with an equal unique key ends the block with `DuplicateRow`, and nothing
        is written.

        May be held back until the block is left, so that all writes go in one round trip."""

    def upsert(self, table: Table, rows: Sequence[Row]) -> None:
        """Adds rows or replaces those of equal primary key. Keys within one call are distinct."""

    def delete(self, table: Table, keys: Sequence[Row]) -> None:
        """Removes rows by primary key; missing ones are no error."""

    def update(
        self,
        table: Table,
        values: Mapping[str, Value],
        *,
        equal: Mapping[str, Value],
        greater: Mapping[str, Value] | None = None,
    ) -> int:
        """Sets `values` where the columns equal and exceed as given, at once; answers how many rows
        changed."""

    def clock_us(self) -> int:
        """The store's clock now, microseconds since the epoch: read when called, not when the
        transaction began (PostgreSQL: clock_timestamp(); SQLite: the host's clock), plus the shift
        that tests set."""


class Appending(Changing, Protocol):
    """A write transaction that holds the lock of one log's head row, taken before anything else was
    read."""

    @property
    def locked_head(self) -> StoredHead:
        """The head as it is under the lock."""

    @property
    def locked_clock_us(self) -> int:
        """The store's clock, read after the lock was taken."""

    def set_head(self, *, size: int, frontier: bytes, time_us: int) -> None:
        """Moves the head. Once in a block, together with the entries and tiles that it covers."""


class Store(Protocol):
    """One database."""

    def append(self, log: int) -> AbstractContextManager[Appending]:
        """Opens an append: BEGIN, lock the head row, read the clock. Leaving the block commits; an
        exception rolls back.

        Raises `HeadMissing`, `StoreUnavailable` (lock timeout, lost connection), at the end
        `CommitUnknown` or `DuplicateRow`."""

    def change(self) -> AbstractContextManager[Changing]:
        """Opens a write transaction that takes no head lock."""

    def read(self) -> AbstractContextManager[Reading]:
        """Opens a read-only snapshot."""

    def migrate(self) -> list[str]:
        """Applies the migrations that are missing, each in a transaction, and answers their names.
        Two processes that migrate at once do it once. Raises `WrongSchema` when an applied one has
        another digest or a newer build's is there."""

    def check(self) -> None:
        """Raises `NotDurable` or `WrongSchema` where serving appends would break a promise."""

    def watch(self, wake: Callable[[], None]) -> AbstractContextManager[None]:
        """Calls `wake` (from any thread) soon after some process may have appended. A hint: may be
        missing, may be false."""

    def close(self) -> None:
        """Closes every connection. Open blocks of other threads end with `StoreUnavailable`."""
