"""The same database without the ledger: INSERTs of rows as large as entries into a table with the
entries' indexes, each commit as durable as the ledger's."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count
from typing import Final
from urllib.parse import unquote, urlsplit

import psycopg

from bench.orders import RowLoad, Taken, summed_up
from bench.traffic import ENTRIES_A_RUN

BARE: Final = "bare"
"""The PostgreSQL schema of the bare table."""

_Row = tuple[int, int, str, int, str, bytes, bytes]
_Commit = Callable[[list[_Row]], None]

_INTO: Final = "entries (log, idx, run, version, type, entry, leaf)"
_ONE: Final = f"INSERT INTO {BARE}.{_INTO} VALUES (%b, %b, %b, %b, %b, %b, %b)"  # noqa: S608
_MANY: Final = (
    f"INSERT INTO {BARE}.{_INTO} SELECT * FROM unnest(%b::bigint[], %b::bigint[],"  # noqa: S608
    " %b::text[], %b::bigint[], %b::text[], %b::bytea[], %b::bytea[])"
)
_SQLITE: Final = f"INSERT INTO {_INTO} VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608


class Writers:
    """The writing threads of one window."""

    def __init__(self, load: RowLoad) -> None:
        self._load = load
        self._next = count(load.first)
        self._entry = os.urandom(load.entry_bytes)
        self._leaf = os.urandom(32)
        self._spans_ns: list[tuple[int, int, int]] = []
        self._faults: list[BaseException] = []
        self._until_ns = 0

    def write(self) -> Taken:
        """Commits until the window closes."""
        load = self._load
        ready = threading.Barrier(load.connections + 1)
        go = threading.Event()
        threads = [
            threading.Thread(target=self._thread, args=(number, ready, go))
            for number in range(load.connections)
        ]
        for thread in threads:
            thread.start()
        ready.wait(timeout=60)
        from_ns, load_s = time.perf_counter_ns(), time.process_time()
        self._until_ns = from_ns + int(load.window_s * 1e9)
        go.set()
        for thread in threads:
            thread.join()
        if self._faults:
            raise self._faults[0]
        return summed_up(
            self._spans_ns,
            from_ns=from_ns,
            until_ns=max(ended for _, ended, _ in self._spans_ns),
            server_cpu_s=0.0,
            load_cpu_s=time.process_time() - load_s,
        )

    def _thread(self, number: int, ready: threading.Barrier, go: threading.Event) -> None:
        try:
            if self._load.url.startswith("sqlite:"):
                with closing(_open_sqlite(self._load.url)) as file:
                    self._commit_all(number, lambda rows: _into_sqlite(file, rows), ready, go)
            else:
                with psycopg.connect(self._load.url, autocommit=True) as server:
                    server.prepare_threshold = 0
                    self._commit_all(number, lambda rows: _into_postgres(server, rows), ready, go)
        except BaseException as fault:
            ready.abort()
            self._faults.append(fault)
            raise

    def _commit_all(
        self, number: int, commit: _Commit, ready: threading.Barrier, go: threading.Event
    ) -> None:
        size = self._load.rows
        versions = count()
        ready.wait(timeout=60)
        go.wait()
        while (began := time.perf_counter_ns()) < self._until_ns:
            commit([self._row(number, next(versions)) for _ in range(size)])
            self._spans_ns.append((began, time.perf_counter_ns(), size))

    def _row(self, number: int, version: int) -> _Row:
        run = f"{self._load.name}-{number:02d}-{version // ENTRIES_A_RUN:06d}"
        at = next(self._next)
        return (1, at, run, version % ENTRIES_A_RUN, "step.started", self._entry, self._leaf)


def _open_sqlite(url: str) -> sqlite3.Connection:
    file = sqlite3.connect(unquote(urlsplit(url).path), isolation_level=None)
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("PRAGMA synchronous = FULL")
    return file


def _into_sqlite(file: sqlite3.Connection, rows: list[_Row]) -> None:
    file.execute("BEGIN IMMEDIATE")
    file.executemany(_SQLITE, rows)
    file.execute("COMMIT")


def _into_postgres(server: psycopg.Connection, rows: list[_Row]) -> None:
    if len(rows) == 1:
        server.execute(_ONE, rows[0])
    else:
        server.execute(_MANY, [list(column) for column in zip(*rows, strict=True)])
