"""Ledger time: the one time that deadlines, leases and entries are in (contract §6, rules §2).

It is the database's clock, read under the head's lock, and never below the head's last time. Where
that clock is behind the head, or far ahead of what this replica's monotonic clock says, the
monotonic clock bridges, and an alarm is raised: time never stands still and never leaps unasked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from time import monotonic_ns
from typing import Final

AHEAD_MAX_US: Final = 10_000_000
ALARM_PAUSE_US: Final = 60_000_000


def _monotonic_us() -> int:
    return monotonic_ns() // 1_000


@dataclass(frozen=True, slots=True)
class ClockAlarm:
    """The database's clock is not believed: how far off it is, negative if behind."""

    off_us: int
    bridged_us: int


def rarely(
    tell: Callable[[ClockAlarm], None], *, monotonic_us: Callable[[], int] = _monotonic_us
) -> Callable[[ClockAlarm], None]:
    """Tells the first alarm and then at most one a minute: a clock that is off raises one at every
    reading."""
    told_us: list[int] = []

    def alarm(raised: ClockAlarm) -> None:
        now_us = monotonic_us()
        if not told_us or now_us - told_us[0] >= ALARM_PAUSE_US:
            told_us[:] = [now_us]
            tell(raised)

    return alarm


class LedgerTime:
    """Ledger time of one log, as one replica reads it."""

    def __init__(
        self,
        *,
        ahead_max_us: int = AHEAD_MAX_US,
        monotonic_us: Callable[[], int] = _monotonic_us,
        on_alarm: Callable[[ClockAlarm], None] = lambda alarm: None,
    ) -> None:
        self._ahead_max_us = ahead_max_us
        self._monotonic_us = monotonic_us
        self._on_alarm = on_alarm
        self._lock = Lock()
        self._base_us = 0
        self._base_head_us = -1
        self._accepted_us = 0

    def accept(self, ahead_us: int) -> None:
        """An operator takes a jump ahead over: the clock is believed up to that time."""
        with self._lock:
            self._accepted_us = ahead_us

    def now_us(self, *, head_us: int, clock_us: int) -> int:
        """Ledger time, given the head's last time and the database's clock, both just read.

        For appends they are read under the head's lock; renewals follow the same rule without it.
        Every reading is the base of the next one, whether the clock was believed or bridged: time
        goes on from here even if nothing is appended.
        """
        with self._lock:
            now_us = self._judge(head_us=head_us, clock_us=clock_us)
            self._base_head_us = now_us
            return now_us

    def shown_us(self, *, head_us: int, host_us: int) -> int:
        """Ledger time for readers, who do not ask the database for its clock.

        It goes on from the last reading of that clock by this replica's monotonic one. Only where
        there was none yet it is the host's, `host_us`; that is believed of nothing but what is
        shown, so it is never the base of a later reading.
        """
        with self._lock:
            if self._base_head_us < 0:
                return max(host_us, head_us)
            elapsed_us = self._monotonic_us() - self._base_us
            return max(head_us, self._base_head_us + elapsed_us)

    def _judge(self, *, head_us: int, clock_us: int) -> int:
        monotonic_us = self._monotonic_us()
        elapsed_us, self._base_us = monotonic_us - self._base_us, monotonic_us
        if self._base_head_us < 0:
            # A replica without a base takes the database's clock.
            return max(clock_us, head_us)
        bridged_us = max(head_us, self._base_head_us + elapsed_us)
        if clock_us < head_us:
            self._alarm(clock_us - head_us, bridged_us)
            return bridged_us
        if clock_us > bridged_us + self._ahead_max_us and clock_us > self._accepted_us:
            self._alarm(clock_us - bridged_us, bridged_us)
            return bridged_us
        return max(clock_us, head_us)

    def _alarm(self, off_us: int, bridged_us: int) -> None:
        self._on_alarm(ClockAlarm(off_us, bridged_us))
