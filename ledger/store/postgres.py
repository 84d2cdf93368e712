"""The store in a PostgreSQL database (15 to 18): any number of hosts, one row lock orders a log.

READ COMMITTED with the head row locked first: whoever waited for the lock sees, in every later
statement, what the one before it committed. Nothing on this path uses advisory locks, LOCK TABLE,
triggers, sequences or LISTEN, so poolers and kin of PostgreSQL serve as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

from ledger.core.errors import InvariantViolation
from ledger.store import postgres_texts as texts
from ledger.store import statements
from ledger.store.asking import asked_keys, asked_page, asked_update
from ledger.store.errors import DuplicateRow, HeadMissing, StoreUnavailable, WrongSchema
from ledger.store.interface import StoredHead
from ledger.store.migrate import Migration, apply_missing, known_migrations, missing_migrations
from ledger.store.postgres_arrays import arrays_of
from ledger.store.postgres_connection import PostgresConnection, Target
from ledger.store.postgres_keeper import ConnectionKeeper
from ledger.store.settings import StoreSettings
from ledger.store.tables import HEADS, Row, Table, Value
from ledger.store.values import columns_named
from ledger.store.writes import Flight, HeldWrites

_Begun = list[list[Any]]
"""The rows that a transaction's first script answered, statement by statement."""
_Begin = Callable[[PostgresConnection], _Begun]


class PostgresReading:
    """Reads through one connection, inside its transaction."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    may_lock = False

    def get(self, table: Table, keys: Sequence[Row], *, lock: bool = False) -> list[Row]:
        """See `Reading.get`."""
        if lock and not self.may_lock:
            raise InvariantViolation("a lock was asked for in a block that only reads")
        return self._get(table, table.key, keys, lock=lock)

    def get_by(self, table: Table, columns: Sequence[str], values: Sequence[Row]) -> list[Row]:
        """See `Reading.get_by`."""
        return self._get(table, tuple(columns), values, lock=False)

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
        """See `Reading.page`."""
        shape, values = asked_page(
            table,
            equal=equal,
            order=order,
            after=after,
            greater=greater,
            descending=descending,
            limit=limit,
        )
        text = statements.page(shape, texts.mark)
        return self._connection.run(f"page {table.name}", text, values)

    def head(self, log: int) -> StoredHead:
        """See `Reading.head`."""
        return _head_of(self.get(HEADS, [(log,)]), log)

    def _get(
        self, table: Table, names: tuple[str, ...], values: Sequence[Row], *, lock: bool
    ) -> list[Row]:
        keys = asked_keys(table, names, values)
        if not keys:
            return []
        text = texts.get_many(table, names, lock=lock)
        arrays = arrays_of(columns_named(table, names), keys)
        return self._connection.run(f"get {table.name}", text, arrays, often=True)


class PostgresChanging(PostgresReading):
    """A write transaction; its writes are held until it is left, then sent in one statement."""

    may_lock = True

    def __init__(self, connection: PostgresConnection, settings: StoreSettings) -> None:
        super().__init__(connection)
        self._settings = settings
        self._held = HeldWrites()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._held.end()
        if kind is None:
            self._write_held()

    def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """See `Changing.insert`."""
        self._held.add("insert", table, rows)

    def upsert(self, table: Table, rows: Sequence[Row]) -> None:
        """See `Changing.upsert`."""
        self._held.add("upsert", table, rows)

    def delete(self, table: Table, keys: Sequence[Row]) -> None:
        """See `Changing.delete`."""
        self._held.add("delete", table, keys)

    def update(
        self,
        table: Table,
        values: Mapping[str, Value],
        *,
        equal: Mapping[str, Value],
        greater: Mapping[str, Value] | None = None,
    ) -> int:
        """See `Changing.update`. What is held goes first: order stays the order of the calls."""
        shape, parameters = asked_update(table, values, equal=equal, greater=greater)
        self._write_held()
        text = statements.update(shape, texts.mark)
        return self._connection.change(f"update {table.name}", text, parameters)

    def clock_us(self) -> int:
        """See `Changing.clock_us`: the server's clock, shifted."""
        rows = self._connection.run("clock", texts.CLOCK)
        return int(rows[0][0]) + self._settings.shift_us()

    def _write_held(self) -> None:
        for flight in self._held.take():
            self._send(flight)

    def _send(self, flight: Flight) -> None:
        text = texts.write_all(tuple((write.effect, write.table) for write in flight))
        arrays: list[object] = []
        for write in flight:
            names = write.table.key if write.effect == "delete" else write.table.names
            arrays += arrays_of(columns_named(write.table, names), write.rows)
        self._connection.change("write", text, arrays, often=True)


class PostgresAppending(PostgresChanging):
    """A write transaction that holds the lock of one log's head."""

    def __init__(
        self,
        connection: PostgresConnection,
        settings: StoreSettings,
        *,
        head: StoredHead,
        clock_us: int,
    ) -> None:
        super().__init__(connection, settings)
        self._head = head
        self._clock_us = clock_us + settings.shift_us()
        self._moved = False

    @property
    def locked_head(self) -> StoredHead:
        """See `Appending.locked_head`."""
        return self._head

    @property
    def locked_clock_us(self) -> int:
        """See `Appending.locked_clock_us`."""
        return self._clock_us

    def set_head(self, *, size: int, frontier: bytes, time_us: int) -> None:
        """See `Appending.set_head`."""
        if self._moved:
            raise InvariantViolation("the head was moved twice in one block")
        self._moved = True
        self.upsert(HEADS, [(self._head.log, self._head.origin, size, frontier, time_us)])


class PostgresStore:
    """See `ledger.store.interface.Store`. Connects when first used.

    Appends have connections of their own, one at a time for each log, so that readers never stand
    in their way. Raises ValueError for an address that cannot be read; never shows it."""

    def __init__(self, dsn: str, settings: StoreSettings | None = None) -> None:
        self._settings = settings or StoreSettings()
        self._target = Target(dsn, self._settings)
        self._appends = self._keeper(self._settings.append_connections_max)
        self._others = self._keeper(self._settings.other_connections_max)
        self._turns: dict[int, threading.Lock] = {}
        self._closed = False

    @contextmanager
    def append(self, log: int) -> Iterator[PostgresAppending]:
        """See `Store.append`."""
        turn = self._turns.setdefault(log, threading.Lock())
        if not turn.acquire(timeout=self._settings.lock_wait_ms_max / 1000):
            raise StoreUnavailable("another thread of this process keeps appending")
        try:
            with self._transaction(self._appends, lambda it: self._begin_append(it, log)) as begun:
                connection, (heads, clock) = begun
                block = PostgresAppending(
                    connection,
                    self._settings,
                    head=_head_of(heads, log),
                    clock_us=clock[0][0],
                )
                with block:
                    yield block
                connection.commit()
        finally:
            turn.release()

    @contextmanager
    def change(self) -> Iterator[PostgresChanging]:
        """See `Store.change`."""
        with self._transaction(self._others, self._begin_change) as (connection, _):
            with PostgresChanging(connection, self._settings) as block:
                yield block
            connection.commit()

    @contextmanager
    def read(self) -> Iterator[PostgresReading]:
        """See `Store.read`. The snapshot is taken here, not at the first read."""
        with self._transaction(self._others, self._begin_read) as (connection, _):
            yield PostgresReading(connection)

    def migrate(self) -> list[str]:
        """See `Store.migrate`."""
        self._make_migrations_table()
        return apply_missing(known_migrations("postgres"), self._begin_migration)

    def check(self) -> None:
        """See `Store.check`. Asks on a new connection, which reads every setting back."""
        if self._closed:
            raise StoreUnavailable("the store was closed")
        connection = PostgresConnection(self._target, self._settings)
        try:
            applied = _applied(connection)
        finally:
            connection.close()
        missing = missing_migrations(known_migrations("postgres"), applied)
        if missing:
            raise WrongSchema(f"migration {missing[0].name} is missing; run the migrations first")

    @contextmanager
    def watch(self, wake: Callable[[], None]) -> Iterator[None]:
        """See `Store.watch`: looks at the heads now and then. NOTIFY would make all commits of the
        database wait for each other."""
        ended = threading.Event()
        watching = threading.Thread(
            target=self._watch, args=(wake, ended), name="ledger-watch", daemon=True
        )
        watching.start()
        try:
            yield
        finally:
            ended.set()
            watching.join()

    def close(self) -> None:
        """See `Store.close`."""
        self._closed = True
        self._appends.close()
        self._others.close()

    def _keeper(self, connections_max: int) -> ConnectionKeeper:
        return ConnectionKeeper(self._target, self._settings, connections_max=connections_max)

    @contextmanager
    def _transaction(
        self, keeper: ConnectionKeeper, begin: _Begin
    ) -> Iterator[tuple[PostgresConnection, _Begun]]:
        """Begins, and whatever happens ends the transaction: what is still open when the block is
        left is rolled back."""
        connection, begun = _begun(keeper, begin)
        try:
            yield connection, begun
        finally:
            keeper.give_back(connection)

    def _begin_append(self, connection: PostgresConnection, log: int) -> _Begun:
        text = texts.begin_append(self._settings, connection.synchronous, log)
        return connection.script("begin append", text)

    def _begin_change(self, connection: PostgresConnection) -> _Begun:
        text = texts.begin_change(self._settings, connection.synchronous)
        return connection.script("begin change", text)

    def _begin_read(self, connection: PostgresConnection) -> _Begun:
        return connection.script("begin read", texts.begin_read(self._settings))

    def _make_migrations_table(self) -> None:
        # Two that make it at once meet in the catalogue; whoever lost finds it there next time.
        for attempts_left in (4, 3, 2, 1, 0):
            try:
                self._try_to_make_migrations_table()
                return
            except DuplicateRow:
                if not attempts_left:
                    raise

    def _try_to_make_migrations_table(self) -> None:
        with self._transaction(self._others, self._begin_change) as (connection, _):
            connection.script("migrate", texts.MAKE_MIGRATIONS_TABLE)
            connection.script("migrate", texts.MAKE_MIGRATIONS_LOCK)
            connection.commit()

    @contextmanager
    def _begin_migration(self) -> Iterator[_Applying]:
        with self._transaction(self._others, self._begin_change) as (connection, _):
            connection.script("migrate", texts.LOCK_MIGRATIONS)
            yield _Applying(connection, self._settings)
            connection.commit()

    def _watch(self, wake: Callable[[], None], ended: threading.Event) -> None:
        seen: object = None
        while not (self._closed or ended.wait(self._settings.watch_ms / 1000)):
            try:
                with self._transaction(self._others, self._begin_read) as (connection, _):
                    found = connection.run("watch", texts.WATCH)
            except StoreUnavailable:
                continue
            if found != seen:
                seen = found
                wake()


class _Applying:
    def __init__(self, connection: PostgresConnection, settings: StoreSettings) -> None:
        self._connection = connection
        self._settings = settings

    def applied(self) -> Mapping[str, str]:
        return _applied(self._connection)

    def execute(self, statement: str) -> None:
        self._connection.script("migrate", statement)

    def record(self, migration: Migration) -> None:
        now_us = self._connection.run("migrate", texts.CLOCK)[0][0] + self._settings.shift_us()
        row = (migration.name, migration.digest, now_us)
        self._connection.run("migrate", texts.RECORD_MIGRATION, row)


def _begun(keeper: ConnectionKeeper, begin: _Begin) -> tuple[PostgresConnection, _Begun]:
    """Takes a connection and begins. An idle one may have died long ago: nothing was begun, so a
    new one is tried, once; after this nothing is ever tried twice."""
    connection = keeper.take()
    try:
        return connection, _begin_on(keeper, connection, begin)
    except StoreUnavailable:
        if not connection.lost:
            raise
    connection = keeper.take_new()
    return connection, _begin_on(keeper, connection, begin)


def _begin_on(keeper: ConnectionKeeper, connection: PostgresConnection, begin: _Begin) -> _Begun:
    try:
        return begin(connection)
    except BaseException:
        keeper.give_back(connection)
        raise


def _applied(connection: PostgresConnection) -> dict[str, str]:
    """What was applied; the row without a name is only there to be locked."""
    rows = connection.run("get schema_migrations", statements.APPLIED_MIGRATIONS)
    return {name: digest for name, digest in rows if name}


def _head_of(rows: Sequence[Row], log: int) -> StoredHead:
    if not rows:
        raise HeadMissing(f"log {log} has no head here")
    return StoredHead(*rows[0])  # type: ignore[arg-type]
