"""One SQLite connection: opened durable or not at all, and one funnel for its statements."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Final, NoReturn, TypeVar

from ledger.core.errors import InvariantViolation
from ledger.store.errors import (
    CommitUnknown,
    DuplicateRow,
    NotDurable,
    StoreError,
    StoreUnavailable,
    WrongSchema,
)
from ledger.store.settings import Moment, StoreSettings
from ledger.store.tables import Row, Value

OLDEST_VERSION: Final = (3, 37, 0)
"""STRICT tables."""

_FULL: Final = 2
_DUPLICATE: Final = frozenset(
    {
        "SQLITE_CONSTRAINT_PRIMARYKEY",
        "SQLITE_CONSTRAINT_UNIQUE",
        "SQLITE_CONSTRAINT_ROWID",
    }
)
_PAUSE_S: Final = 0.02

_Answer = TypeVar("_Answer")


class SqliteConnection:
    """A connection of one thread at a time. After an error other than a duplicate it is `broken`:
    it is closed, never used again."""

    def __init__(self, path: Path, settings: StoreSettings, is_closed: Callable[[], bool]) -> None:
        self.broken = False
        self._observe = settings.observe
        self._is_closed = is_closed
        try:
            self._raw = sqlite3.connect(
                path,
                timeout=settings.lock_wait_ms_max / 1000,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the database file cannot be opened: {error}") from error
        try:
            self._configure(settings.lock_wait_ms_max)
        except BaseException:
            self._raw.close()
            raise

    def run(self, kind: str, statement: str, values: Sequence[object] = ()) -> list[Any]:
        """Runs one statement and answers its rows. Raises a `StoreError`."""
        return self._funnel(kind, lambda: self._raw.execute(statement, values).fetchall())

    def change(self, kind: str, statement: str, values: Sequence[object]) -> int:
        """Runs one statement and answers how many rows it changed."""
        return self._funnel(kind, lambda: self._raw.execute(statement, values).rowcount)

    def run_each(self, kind: str, statements: Sequence[tuple[str, Sequence[Value]]]) -> list[Row]:
        """Runs statements that read, each with its values, and answers all their rows; one
        statement to the observer."""
        execute = self._raw.execute
        return self._funnel(
            kind, lambda: [row for text, values in statements for row in execute(text, values)]
        )

    def write_each(self, kind: str, statement: str, rows: Sequence[Row]) -> None:
        """Runs one writing statement for each row of values; one statement to the observer."""
        self._funnel(kind, lambda: self._raw.executemany(statement, rows))

    def commit(self) -> None:
        """COMMIT. Raises `CommitUnknown` whatever the error: after a failed write or fsync of the
        log file, SQLite's own answer does not say what a recovery will find."""
        if self._is_closed():
            raise StoreUnavailable("the store was closed")
        self._tell("before", "commit")
        try:
            self._raw.execute("COMMIT")
        except sqlite3.Error as error:
            self.broken = True
            raise CommitUnknown(f"COMMIT failed: {_name(error)}") from error
        self._tell("after", "commit")

    def rollback(self) -> None:
        """ROLLBACK, or, where even that fails, a closed connection, which does the same."""
        if not self._raw.in_transaction:
            return
        self._tell("before", "rollback")
        try:
            self._raw.execute("ROLLBACK")
        except sqlite3.Error:
            self.broken = True
        self._tell("after", "rollback")

    def interrupt(self) -> None:
        """Ends the running statement, from any thread."""
        self._raw.interrupt()

    def close(self) -> None:
        """Closes; an open transaction is rolled back."""
        self._raw.close()

    def _funnel(self, kind: str, work: Callable[[], _Answer]) -> _Answer:
        if self._is_closed():
            raise StoreUnavailable("the store was closed")
        self._tell("before", kind)
        try:
            answer = work()
        except sqlite3.Error as error:
            self._refuse(error)
        self._tell("after", kind)
        return answer

    def _tell(self, moment: Moment, kind: str) -> None:
        if self._observe is not None:
            self._observe(moment, kind)

    def _refuse(self, error: sqlite3.Error) -> NoReturn:
        if isinstance(error, sqlite3.IntegrityError):
            if _name(error) in _DUPLICATE:
                raise DuplicateRow(str(error)) from error
            raise InvariantViolation(f"a row breaks its table's rules: {error}") from error
        self.broken = True
        raise translated(error) from error

    def _configure(self, busy_ms: int) -> None:
        self._pragma(f"busy_timeout = {busy_ms}")
        self._enter_wal(busy_ms)
        for setting in (
            "synchronous = FULL",
            "fullfsync = ON",
            "foreign_keys = ON",
            "trusted_schema = OFF",
            # What erasure removes must not live on in free pages.
            "secure_delete = ON",
        ):
            self._pragma(setting)
        self.check()

    def check(self) -> None:
        """Reads the durability settings back. Raises `NotDurable`."""
        for name, wanted in (("journal_mode", "wal"), ("synchronous", _FULL), ("foreign_keys", 1)):
            found = self._pragma(name)
            if found != wanted:
                raise NotDurable(f"SQLite's {name} is {found!r} and not {wanted!r}")

    def keep_recovered(self, busy_ms: int) -> None:
        """Makes everything that a reader sees here durable. Raises `StoreUnavailable`.

        A process that died between the write and the fsync of its log file leaves a transaction
        that SQLite's recovery takes for committed and never syncs: it would be answered to a
        repeated request and be lost with the power. Copied into the database file it is written
        anew, which holds even where the fsync had failed and the kernel calls its pages clean.
        While others have the file open nothing was recovered, and what they still read may wait.
        """
        deadline = monotonic() + busy_ms / 1000
        pause = threading.Event()
        while True:
            row = self._row("PRAGMA wal_checkpoint(PASSIVE)")
            if row is None or not row[0]:
                return
            if monotonic() > deadline:
                raise StoreUnavailable("another process keeps copying the log file")
            pause.wait(_PAUSE_S)

    def _enter_wal(self, busy_ms: int) -> None:
        # Two connections that switch a new file to WAL at once refuse each other at once, without
        # the busy timeout; the file keeps the mode, so this is waited for only at its making.
        deadline = monotonic() + busy_ms / 1000
        pause = threading.Event()
        while True:
            try:
                self._pragma("journal_mode = WAL")
                return
            except StoreUnavailable:
                if monotonic() > deadline:
                    raise
                pause.wait(_PAUSE_S)

    def _pragma(self, text: str) -> object:
        row = self._row(f"PRAGMA {text}")
        return None if row is None else row[0]

    def _row(self, statement: str) -> Row | None:
        try:
            row: Row | None = self._raw.execute(statement).fetchone()
        except sqlite3.Error as error:
            raise translated(error) from error
        return row


def make_file(path: Path) -> None:
    """Makes the empty file, mode 0600 whatever the umask, durably named in its folder.

    SQLite gives its WAL the same mode. An existing file is left as it is."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except FileExistsError:
        return
    except OSError as error:
        raise StoreUnavailable(f"the database file cannot be made: {error.strerror}") from error
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def translated(error: sqlite3.Error) -> StoreError:
    """What an error before COMMIT means: nothing was written."""
    text = str(error)
    if text.startswith(("no such table", "no such column")):
        return WrongSchema(f"{text}; was the database migrated?")
    return StoreUnavailable(f"{_name(error)}: {text}")


def _name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", None) or type(error).__name__
