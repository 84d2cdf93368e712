"""One PostgreSQL connection: durable or refused, and one funnel for its statements."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import BytesBinaryDumper, StrBinaryDumper

from ledger.core.errors import InvariantViolation
from ledger.store.errors import (
    CommitUnknown,
    DuplicateRow,
    NotDurable,
    StoreError,
    StoreUnavailable,
    WrongSchema,
)
from ledger.store.postgres_arrays import register_arrays
from ledger.store.postgres_texts import DURABILITY, Synchronous
from ledger.store.settings import Moment, StoreSettings

VERSIONS: Final = range(15, 19)
_PREPARED_MAX: Final = 300
# A peer that vanished without a word is found in about half a minute, not in hours.
_ALIVE: Final[dict[str, Any]] = {
    "keepalives": 1,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "ledger",
}

_Answer = TypeVar("_Answer")


class Target:
    """Where to connect to. Holds a password and shows none of it."""

    __slots__ = ("_parameters",)

    def __init__(self, dsn: str, settings: StoreSettings) -> None:
        defaults = {**_ALIVE, "connect_timeout": settings.connect_s_max}
        try:
            self._parameters = {**defaults, **conninfo_to_dict(dsn), "client_encoding": "utf8"}
        except psycopg.Error:
            # The parser's message repeats the text it could not read, password and all.
            raise ValueError("the PostgreSQL address cannot be read") from None

    def __repr__(self) -> str:
        return "Target(...)"

    def connect(self, prepares: bool) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection. Raises `StoreUnavailable`."""
        try:
            raw = psycopg.connect(
                autocommit=True,
                prepare_threshold=5 if prepares else None,
                cursor_factory=psycopg.RawCursor,
                context=_ADAPTERS,
                **self._parameters,
            )
        except psycopg.Error as error:
            raise StoreUnavailable(f"no connection: {self._without_password(error)}") from None
        raw.prepared_max = _PREPARED_MAX if prepares else 0
        return raw

    def _without_password(self, error: psycopg.Error) -> str:
        password = self._parameters.get("password")
        return str(error).replace(str(password), "...") if password else str(error)


class PostgresConnection:
    """A connection of one thread at a time. After any error it is `broken`: it is closed, never
    used again. `lost` says that the server was no longer at the other end."""

    def __init__(self, target: Target, settings: StoreSettings) -> None:
        self.broken = False
        self.lost = False
        self.closing = False
        self._observe = settings.observe
        self._prepares = settings.prepares
        self._warned = False
        self._raw = target.connect(settings.prepares)
        self._cursor = self._raw.cursor(binary=True)
        self._raw.add_notice_handler(self._hear)
        try:
            self.synchronous: Synchronous = self._check_durable()
        except BaseException:
            self._raw.close()
            raise

    def script(self, kind: str, text: str) -> list[list[Any]]:
        """Runs statements without parameters in one round trip; the rows of each SELECT."""
        return self._funnel(kind, lambda: self._run_script(text))

    def run(
        self, kind: str, text: str, values: Sequence[object] = (), *, often: bool = False
    ) -> list[Any]:
        """Runs one statement and answers its rows; one that runs `often` is prepared at once."""
        return self._funnel(kind, lambda: _rows(self._execute(text, values, often)))

    def change(self, kind: str, text: str, values: Sequence[object], *, often: bool = False) -> int:
        """Runs one statement and answers how many rows it changed."""
        return self._funnel(kind, lambda: self._execute(text, values, often).rowcount)

    def commit(self) -> None:
        """COMMIT. Raises `CommitUnknown` whatever the error."""
        if self.closing:
            self.broken = True
            raise StoreUnavailable("the store was closed")
        self._tell("before", "commit")
        self._warned = False
        try:
            answer = self._cursor.execute("COMMIT", binary=False).statusmessage
        except psycopg.Error as error:
            self.broken = True
            raise CommitUnknown(f"COMMIT failed: {_said(error)}") from error
        if self._warned:
            # The server gave up waiting for its standby, committed here, and calls that a success.
            self.broken = True
            raise CommitUnknown("COMMIT was answered with a warning")
        if answer != "COMMIT":
            self.broken = True
            raise StoreUnavailable(f"COMMIT was answered by {answer}")
        self._tell("after", "commit")

    def rollback(self) -> None:
        """ROLLBACK where a transaction is open, or a closed connection, which does the same."""
        if self.broken or self._raw.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            return
        self._tell("before", "rollback")
        try:
            self._cursor.execute("ROLLBACK", binary=False)
        except psycopg.Error:
            self.broken = True
        self._tell("after", "rollback")

    def cut(self) -> None:
        """Ends the connection from any thread; the one that uses it meets an error at once."""
        self.closing = True
        # Closing it here would free what the other thread stands on.
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self._raw.fileno())) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes; an open transaction is rolled back by the server."""
        self._raw.close()

    def _funnel(self, kind: str, work: Callable[[], _Answer]) -> _Answer:
        if self.closing:
            self.broken = True
            raise StoreUnavailable("the store was closed")
        self._tell("before", kind)
        try:
            answer = work()
        except psycopg.Error as error:
            self._refuse(error)
        self._tell("after", kind)
        return answer

    def _execute(self, text: str, values: Sequence[object], often: bool) -> psycopg.Cursor[Any]:
        prepare = True if often and self._prepares else None
        return self._cursor.execute(text, values, prepare=prepare)

    def _run_script(self, text: str) -> list[list[Any]]:
        cursor = self._cursor.execute(text, binary=False)
        found: list[list[Any]] = []
        while True:
            if cursor.description:
                found.append(cursor.fetchall())
            if not cursor.nextset():
                return found

    def _tell(self, moment: Moment, kind: str) -> None:
        if self._observe is not None:
            self._observe(moment, kind)

    def _hear(self, notice: pg.Diagnostic) -> None:
        self._warned = self._warned or notice.severity_nonlocalized == "WARNING"

    def _refuse(self, error: psycopg.Error) -> NoReturn:
        self.broken = True
        self.lost = self._raw.closed or isinstance(error, pg.AdminShutdown | pg.CrashShutdown)
        meant = _translated(error)
        if isinstance(meant, InvariantViolation):
            raise meant from None  # the driver's own text shows the whole row
        raise meant from error

    def _check_durable(self) -> Synchronous:
        try:
            row = self._raw.execute(DURABILITY).fetchone()
        except psycopg.Error as error:
            raise StoreUnavailable(_said(error)) from error
        assert row is not None  # noqa: S101 - a select without FROM has one row
        fsync, full_pages, retry, synchronous, encoding, version, in_recovery = row
        faults = [
            (fsync != "on", "fsync is off"),
            (full_pages != "on", "full_page_writes is off"),
            (retry != "off", "data_sync_retry is on: a failed fsync would become a success"),
            (encoding != "UTF8", "the database's encoding is not UTF8"),
            (version // 10_000 not in VERSIONS, f"the server's version {version} is not 15 to 18"),
            (in_recovery, "the server is a standby"),
        ]
        found = [said for is_fault, said in faults if is_fault]
        if found:
            raise NotDurable("; ".join(found))
        return "remote_apply" if synchronous == "remote_apply" else "on"


def _rows(cursor: psycopg.Cursor[Any]) -> list[Any]:
    return cursor.fetchall() if cursor.description else []


def _translated(error: psycopg.Error) -> StoreError | InvariantViolation:
    """What an error before COMMIT means: nothing was written."""
    match error:
        case pg.UniqueViolation():
            return DuplicateRow(f"duplicate of {error.diag.constraint_name}")
        case pg.DuplicateTable() | pg.DuplicateObject():
            return DuplicateRow(_said(error))  # in the catalogue: of the table, or of its row type
        case pg.UndefinedTable() | pg.UndefinedColumn():
            return WrongSchema(f"{error.diag.message_primary}; was the database migrated?")
        case psycopg.IntegrityError():
            return InvariantViolation(
                f"a row breaks its table's rules: {error.diag.constraint_name or _said(error)}"
            )
        case pg.InsufficientPrivilege():
            return StoreUnavailable(_said(error))
        case psycopg.ProgrammingError() | psycopg.DataError() | psycopg.NotSupportedError():
            return InvariantViolation(f"the statement is wrong: {_said(error)}")
        case _:
            return StoreUnavailable(_said(error))


def _said(error: psycopg.Error) -> str:
    """The error without its detail, which shows the row."""
    if error.sqlstate is not None:
        return f"{error.sqlstate} {error.diag.message_primary}"
    return f"{type(error).__name__}: {error}"


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    # One type for each kind, whatever the value, so that one statement has one prepared form.
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(str, StrBinaryDumper)
    adapters.register_dumper(bytes, BytesBinaryDumper)
    register_arrays(adapters)
    return adapters


_ADAPTERS: Final = _adapters()
