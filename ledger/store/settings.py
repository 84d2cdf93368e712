"""What both stores can be told at their making, and what is measured around each statement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

ClockShift = int | Callable[[], int]
"""Microseconds that are added to the store's clock; tests set it."""

Moment = Literal["before", "after"]
Observe = Callable[[Moment, str], None]
"""Called around every statement with its kind, BEGIN and COMMIT included, in the thread that runs
it. What it raises goes through; it is where a test counts statements and ends the process."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Bounds of every wait, in milliseconds, and of open connections.

    `lock_wait_ms_max` bounds the wait for the head's lock and any other, `statement_ms_max` one
    statement (PostgreSQL), `idle_ms_max` a write transaction in which nothing happens, because its
    process was stopped: PostgreSQL then frees the head for the others. `prepares` is off behind a
    pooler that cannot keep prepared statements.
    """

    clock_shift_us: ClockShift = 0
    observe: Observe | None = None
    lock_wait_ms_max: int = 5_000
    statement_ms_max: int = 30_000
    idle_ms_max: int = 60_000
    connect_s_max: int = 10
    append_connections_max: int = 8
    other_connections_max: int = 16
    prepares: bool = True
    watch_ms: int = 200

    def shift_us(self) -> int:
        """The shift of the clock now."""
        shift = self.clock_shift_us
        return shift if isinstance(shift, int) else shift()
