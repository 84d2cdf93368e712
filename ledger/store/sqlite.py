"""The store in one SQLite file: for one host, any number of its processes and threads.

WAL with synchronous=FULL: a COMMIT returns after the fsync of the log file, and what a recovery
found is made durable before it is gone on from. Writers take turns
from their first statement (BEGIN IMMEDIATE), so the lock of a head row is the lock of the file, and
`lock=True` has nothing left to do. Readers have connections of their own and never wait.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Final, Self

from ledger.core.errors import InvariantViolation
from ledger.store import statements
from ledger.store.asking import asked_keys, asked_page, asked_update
from ledger.store.errors import HeadMissing, StoreUnavailable, WrongSchema
from ledger.store.interface import StoredHead
from ledger.store.migrate import Migration, apply_missing, known_migrations, missing_migrations
from ledger.store.settings import StoreSettings
from ledger.store.sqlite_connection import OLDEST_VERSION, SqliteConnection, make_file
from ledger.store.tables import HEADS, Row, Table, Value
from ledger.store.writes import HeldWrites, Write

_IDLE_READERS_MAX: Final = 8
_KEYS_A_STATEMENT: Final = (32, 8, 1)
_MIGRATIONS_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS schema_migrations (name TEXT NOT NULL PRIMARY KEY,"
    " digest TEXT NOT NULL, applied_us INTEGER NOT NULL) STRICT, WITHOUT ROWID"
)


def _mark(_position: int) -> str:
    return "?"


class SqliteReading:
    """Reads through one connection, inside its transaction."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection

    may_lock = False

    def get(self, table: Table, keys: Sequence[Row], *, lock: bool = False) -> list[Row]:
        """See `Reading.get`. Whoever may lock holds the file's write lock already."""
        if lock and not self.may_lock:
            raise InvariantViolation("a lock was asked for in a block that only reads")
        return self.get_by(table, table.key, keys)

    def get_by(self, table: Table, columns: Sequence[str], values: Sequence[Row]) -> list[Row]:
        """See `Reading.get_by`."""
        keys = asked_keys(table, columns, values)
        named = tuple(columns)
        return self._connection.run_each(
            f"get {table.name}",
            [
                (statements.get_some(table, named, _mark, len(some)), list(chain(*some)))
                for some in _in_chunks(keys)
            ],
        )

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
        return self._connection.run(f"page {table.name}", statements.page(shape, _mark), values)

    def head(self, log: int) -> StoredHead:
        """See `Reading.head`."""
        rows = self.get(HEADS, [(log,)])
        if not rows:
            raise HeadMissing(f"log {log} has no head here")
        return StoredHead(*rows[0])  # type: ignore[arg-type]


class SqliteChanging(SqliteReading):
    """A write transaction; its writes are held until it is left."""

    may_lock = True

    def __init__(self, connection: SqliteConnection, settings: StoreSettings) -> None:
        super().__init__(connection)
        self._settings = settings
        self._held = HeldWrites()

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
        return self._connection.change(
            f"update {table.name}", statements.update(shape, _mark), parameters
        )

    def clock_us(self) -> int:
        """See `Changing.clock_us`: the host's clock, shifted."""
        return host_clock_us(self._settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._held.end()
        if kind is None:
            self._write_held()

    def _write_held(self) -> None:
        for flight in self._held.take():
            for write in flight:
                kind = f"{write.effect} {write.table.name}"
                self._connection.write_each(kind, _text(write), write.rows)


class SqliteAppending(SqliteChanging):
    """A write transaction that was opened for one log's head."""

    def __init__(self, connection: SqliteConnection, settings: StoreSettings, log: int) -> None:
        super().__init__(connection, settings)
        self._head = self.head(log)
        self._clock_us = host_clock_us(settings)
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


class SqliteStore:
    """See `ledger.store.interface.Store`. Makes the file where there is none; `migrate` fills it.

    Raises `StoreUnavailable` or `NotDurable` where the file cannot be kept as promised."""

    def __init__(self, path: Path, settings: StoreSettings | None = None) -> None:
        if sqlite3.sqlite_version_info < OLDEST_VERSION:
            raise StoreUnavailable(f"SQLite {sqlite3.sqlite_version} is too old; 3.37 is needed")
        self._path = path
        self._settings = settings or StoreSettings()
        self._turn = threading.Lock()
        self._rooms = threading.Lock()
        self._closed = False
        self._in_use: set[SqliteConnection] = set()
        self._readers: list[SqliteConnection] = []
        self._writer: SqliteConnection | None = None
        make_file(path)
        self._keep_writer(self._open_writer())

    @contextmanager
    def append(self, log: int) -> Iterator[SqliteAppending]:
        """See `Store.append`."""
        with (
            self._write_transaction() as connection,
            SqliteAppending(connection, self._settings, log) as block,
        ):
            yield block

    @contextmanager
    def change(self) -> Iterator[SqliteChanging]:
        """See `Store.change`."""
        with (
            self._write_transaction() as connection,
            SqliteChanging(connection, self._settings) as block,
        ):
            yield block

    @contextmanager
    def read(self) -> Iterator[SqliteReading]:
        """See `Store.read`. The snapshot is taken here, not at the first read."""
        with self._reader() as connection:
            connection.run("begin", "BEGIN DEFERRED")
            try:
                connection.run("begin", "SELECT 1 FROM sqlite_schema LIMIT 1")
                yield SqliteReading(connection)
            finally:
                connection.rollback()

    def migrate(self) -> list[str]:
        """See `Store.migrate`."""
        return apply_missing(known_migrations("sqlite"), self._begin_migration)

    def check(self) -> None:
        """See `Store.check`."""
        with self._reader() as connection:
            connection.check()
            applied = dict(connection.run("get schema_migrations", statements.APPLIED_MIGRATIONS))
        missing = missing_migrations(known_migrations("sqlite"), applied)
        if missing:
            raise WrongSchema(f"migration {missing[0].name} is missing; run the migrations first")

    @contextmanager
    def watch(self, wake: Callable[[], None]) -> Iterator[None]:
        """See `Store.watch`: looks whether any other connection has committed."""
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
        """See `Store.close`. Connections in use are interrupted; their own threads close them."""
        with self._rooms:
            self._closed = True
            idle, self._readers = self._readers, []
            writer, self._writer = self._writer, None
            for connection in self._in_use:
                connection.interrupt()
        for connection in [*idle, *([writer] if writer is not None else [])]:
            connection.close()

    def _open(self) -> SqliteConnection:
        return SqliteConnection(self._path, self._settings, lambda: self._closed)

    def _open_writer(self) -> SqliteConnection:
        """Whatever is acknowledged has been looked at by a writer first."""
        connection = self._open()
        try:
            connection.keep_recovered(self._settings.lock_wait_ms_max)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _write_transaction(self) -> Iterator[SqliteConnection]:
        if not self._turn.acquire(timeout=self._settings.lock_wait_ms_max / 1000):
            raise StoreUnavailable("another thread of this process keeps writing")
        try:
            connection = self._use(self._take_writer() or self._open_writer())
            try:
                connection.run("begin", "BEGIN IMMEDIATE")
                yield connection
                connection.commit()
            finally:
                connection.rollback()
                self._put_back(connection, self._keep_writer)
        finally:
            self._turn.release()

    @contextmanager
    def _reader(self) -> Iterator[SqliteConnection]:
        connection = self._use(self._take_reader() or self._open())
        try:
            yield connection
        finally:
            self._put_back(connection, self._keep_reader)

    def _take_writer(self) -> SqliteConnection | None:
        with self._rooms:
            writer, self._writer = self._writer, None
            return writer

    def _take_reader(self) -> SqliteConnection | None:
        with self._rooms:
            return self._readers.pop() if self._readers else None

    def _use(self, connection: SqliteConnection) -> SqliteConnection:
        with self._rooms:
            self._in_use.add(connection)
        return connection

    def _put_back(
        self, connection: SqliteConnection, keep: Callable[[SqliteConnection], bool]
    ) -> None:
        with self._rooms:
            self._in_use.discard(connection)
        if connection.broken or not keep(connection):
            connection.close()

    def _keep_writer(self, connection: SqliteConnection) -> bool:
        with self._rooms:
            if self._closed:
                return False
            self._writer = connection
            return True

    def _keep_reader(self, connection: SqliteConnection) -> bool:
        with self._rooms:
            if self._closed or len(self._readers) >= _IDLE_READERS_MAX:
                return False
            self._readers.append(connection)
            return True

    @contextmanager
    def _begin_migration(self) -> Iterator[_Applying]:
        with self._write_transaction() as connection:
            connection.run("migrate", _MIGRATIONS_TABLE)
            yield _Applying(connection, self._settings)

    def _watch(self, wake: Callable[[], None], ended: threading.Event) -> None:
        seen: object = None
        while not ended.wait(self._settings.watch_ms / 1000):
            try:
                with self._watcher() as connection:
                    while not ended.is_set():
                        found = connection.run("watch", "PRAGMA data_version")
                        if found != seen:
                            seen = found
                            wake()
                        ended.wait(self._settings.watch_ms / 1000)
            except StoreUnavailable:
                if self._closed:
                    return

    @contextmanager
    def _watcher(self) -> Iterator[SqliteConnection]:
        # data_version counts per connection: this one is not shared with readers.
        connection = self._use(self._open())
        try:
            yield connection
        finally:
            self._put_back(connection, lambda _connection: False)


class _Applying:
    def __init__(self, connection: SqliteConnection, settings: StoreSettings) -> None:
        self._connection = connection
        self._settings = settings

    def applied(self) -> Mapping[str, str]:
        return dict(self._connection.run("migrate", statements.APPLIED_MIGRATIONS))

    def execute(self, statement: str) -> None:
        self._connection.run("migrate", statement)

    def record(self, migration: Migration) -> None:
        self._connection.run(
            "migrate",
            "INSERT INTO schema_migrations (name, digest, applied_us) VALUES (?, ?, ?)",
            (migration.name, migration.digest, host_clock_us(self._settings)),
        )


def host_clock_us(settings: StoreSettings) -> int:
    """The host's clock in microseconds since the epoch, shifted."""
    return time.time_ns() // 1000 + settings.shift_us()


def _in_chunks(keys: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Few sizes make few texts, and a large one spares the most: each statement gives up the
    interpreter's lock and has to wait for it again."""
    start = 0
    for size in _KEYS_A_STATEMENT:
        while len(keys) - start >= size:
            yield keys[start : start + size]
            start += size


def _text(write: Write) -> str:
    table = write.table
    if write.effect == "delete":
        return statements.delete_one(table, _mark)
    text = f"{statements.insert_into(table)} VALUES ({', '.join('?' * len(table.columns))})"
    return text + statements.or_replace(table) if write.effect == "upsert" else text
