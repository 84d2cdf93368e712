"""What the benches stand on: a PostgreSQL server, a ledger server on each store, bare tables."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from bench.rows import BARE
from ledger.core.ids import LOG_RUN
from ledger.store.interface import Reading
from ledger.store.opening import open_store
from ledger.store.rows import blob, number
from ledger.store.tables import ENTRIES, LEASES, TENANTS, Value
from tests.support.postgres import PostgresServer, binaries
from tests.support.server_process import LedgerServer

DSN_VARIABLE: Final = "LEDGER_BENCH_POSTGRES_DSN"
"""An empty database to use instead of one on a server of the bench's own."""


@dataclass(frozen=True, slots=True)
class Side:
    """One store: its ledger server, where its log is, and where bare rows go on the same disk."""

    name: str
    server: LedgerServer
    url: str
    bare_url: str

    def log_size(self) -> int:
        """How many entries the log has."""
        with self._reading() as (reading, log):
            return reading.head(log).size

    def own_entries(self) -> int:
        """How many of them belong to no run: the ledger's own, which no answer acknowledges."""
        with self._reading() as (reading, log):
            equal: dict[str, Value] = {"log": log, "run": LOG_RUN}
            return len(reading.page(ENTRIES, equal=equal, order=("version",), limit=100_000))

    def entry_bytes(self) -> int:
        """The mean length of the newest entries."""
        with self._reading() as (reading, log):
            rows = reading.page(
                ENTRIES, equal={"log": log}, order=("idx",), descending=True, limit=500
            )
        return sum(len(blob(row[5])) for row in rows) // len(rows)

    def count(self, event_type: str) -> int:
        """How many entries of a type the log has. Reads all of it."""
        found, after = 0, None
        with self._reading() as (reading, log):
            while rows := reading.page(
                ENTRIES, equal={"log": log}, order=("idx",), after=after, limit=5_000
            ):
                found += sum(row[4] == event_type for row in rows)
                after = (rows[-1][1],)
        return found

    def due(self) -> int:
        """How many runs something will be due on or is; at most 100,000."""
        with self._reading() as (reading, _):
            rows = reading.page(
                LEASES,
                equal={},
                order=("tenant", "due_us", "run"),
                greater={"due_us": 0},
                limit=100_000,
            )
        return len(rows)

    def server_with(self, settings: Mapping[str, str]) -> LedgerServer:
        """Another server for the same log, with other settings; not started."""
        return LedgerServer(self.server.folder, self.server.store_url, settings=settings)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[tuple[Reading, int]]:
        with contextlib.closing(open_store(self.url)) as store, store.read() as reading:
            tenants = reading.page(TENANTS, equal={}, order=("tenant",), limit=1)
            yield reading, number(tenants[0][1])


class Ground:
    """Makes sides; closes all of them, and PostgreSQL, when it is left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._postgres: PostgresServer | None = None

    def __enter__(self) -> Ground:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def sqlite(self, name: str = "sqlite", *, settings: Mapping[str, str] | None = None) -> Side:
        """A new ledger in an SQLite file, and a bare file with the same tables beside it."""
        folder = self._folder / name
        bare = f"sqlite:{self._folder / f'{name}-bare.db'}"
        with contextlib.closing(open_store(bare)) as store:
            store.migrate()
        server = self._serve(folder, "", settings)
        version = sqlite3.sqlite_version
        return Side(f"SQLite {version}", server, f"sqlite:{folder / 'ledger.db'}", bare)

    def postgres(
        self, name: str = "postgres", *, settings: Mapping[str, str] | None = None
    ) -> Side:
        """A new ledger in a PostgreSQL database, and a bare table with the same indexes in it."""
        dsn = os.environ.get(DSN_VARIABLE) or self._started().create_database(
            f"{name.replace('-', '_')}_{secrets.token_hex(4)}"
        )
        server = self._serve(self._folder / name, dsn, settings)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {BARE}")
            connection.execute(f"CREATE TABLE {BARE}.entries (LIKE entries INCLUDING ALL)")
            version = connection.info.server_version // 10_000
        return Side(f"PostgreSQL {version}", server, dsn, dsn)

    def _started(self) -> PostgresServer:
        if self._postgres is None:
            server = PostgresServer(None, binaries()[0])
            self._postgres = self._stack.enter_context(server)
        return self._postgres

    def _serve(
        self, folder: Path, store_url: str, settings: Mapping[str, str] | None
    ) -> LedgerServer:
        server = LedgerServer(folder, store_url, settings=settings)
        self._stack.callback(server.close)
        return server.start()
