"""The outside world of the demo: a shop with its own SQLite file that counts what happens.

It does *not* recognise a repeated key: whatever is asked of it, it does, and counts. So an effect
that happens twice is seen, and nothing but the ledger keeps it from happening.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ledger.cli.demo.actions import ActionId, action_id
from ledger.client import EffectClass

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS calls (
  call INTEGER PRIMARY KEY AUTOINCREMENT,
  action TEXT NOT NULL,
  run TEXT NOT NULL,
  tool TEXT NOT NULL,
  effect TEXT NOT NULL,
  key TEXT NOT NULL,
  token INTEGER NOT NULL
) STRICT
"""
_INDEX: Final = "CREATE INDEX IF NOT EXISTS calls_by_key ON calls (key)"


@dataclass(frozen=True, slots=True)
class Order:
    """One call of a tool, as it reaches the shop: with the key and the fencing token."""

    run: str
    tool: str
    effect: EffectClass
    arguments: bytes
    key: str
    token: int


class Shop:
    """The shop's counter. Each call is one transaction of its file."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=30.0)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(_TABLE)
        self._connection.execute(_INDEX)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def perform(
        self, order: Order, *, before: Callable[[], None], after: Callable[[], None]
    ) -> str:
        """Do what is asked, count it, and answer the receipt's number.

        `before` and `after` are called on either side of the effect, inside the tool.
        """
        before()
        with closing(
            self._connection.execute(
                "INSERT INTO calls (action, run, tool, effect, key, token) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (
                    action_id(order.run, order.tool, order.arguments),
                    order.run,
                    order.tool,
                    order.effect.name,
                    order.key,
                    order.token,
                ),
            )
        ) as inserted:
            receipt = f"SHOP-{inserted.lastrowid:06d}"
        after()
        return receipt

    def receipt(self, key: str) -> str | None:
        """What a confirmer asks: the receipt of the call that carried this key, if there is one."""
        row = self._connection.execute(
            "SELECT min(call) FROM calls WHERE key = ?", (key,)
        ).fetchone()
        return None if row[0] is None else f"SHOP-{row[0]:06d}"

    def has_receipt(self, receipt: str) -> bool:
        """Whether the shop gave out this receipt."""
        row = self._connection.execute(
            "SELECT 1 FROM calls WHERE call = ?", (int(receipt.rpartition("-")[2]),)
        ).fetchone()
        return row is not None

    def happened(self) -> Counter[ActionId]:
        """How often each action's effect happened.

        A write that is idempotent by its key counts once for each key: that is what the word says.
        Reads and proposals have no effect.
        """
        rows = self._connection.execute(
            "SELECT action, CASE effect WHEN 'IDEMPOTENT_WRITE' THEN count(DISTINCT key) "
            "ELSE count(*) END FROM calls WHERE effect NOT IN ('READ_ONLY', 'PROPOSE') "
            "GROUP BY action, effect"
        )
        counted: Counter[ActionId] = Counter()
        for action, times in rows:
            counted[ActionId(action)] += times
        return counted
