"""A small payment provider with its own SQLite file: the system of record."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

_TABLE = "CREATE TABLE IF NOT EXISTS payments (id INTEGER PRIMARY KEY, key TEXT, cents INTEGER)"


class Provider:
    """Takes payments and finds them again by the key that came with them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(sqlite3.connect(path)) as file:
            file.execute(_TABLE)

    def pay(self, *, key: str, cents: int) -> str:
        """Pay, and answer the payment's id. Asked twice, it pays twice."""
        with closing(sqlite3.connect(self._path)) as file, file:
            made = file.execute("INSERT INTO payments (key, cents) VALUES (?, ?)", (key, cents))
            return f"PAY-{made.lastrowid}"

    def find(self, key: str) -> str | None:
        """The id of the payment that carried this key, None if there is none."""
        with closing(sqlite3.connect(self._path)) as file:
            row = file.execute("SELECT min(id) FROM payments WHERE key = ?", (key,)).fetchone()
        return None if row[0] is None else f"PAY-{row[0]}"

    def count(self) -> int:
        """How many payments were made."""
        with closing(sqlite3.connect(self._path)) as file:
            counted: int = file.execute("SELECT count(*) FROM payments").fetchone()[0]
        return counted
