"""When to send the same request again. Pure: it decides on values and neither sleeps nor sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ledger.client.failures import Failure


@dataclass(frozen=True, slots=True)
class Wait:
    """Send the same bytes again after this pause."""

    pause_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The failure stands."""


Next: TypeAlias = Wait | GiveUp


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Full-jitter exponential backoff up to a deadline, for transient failures only.

    `deadline_s` bounds one logical call, all its tries and pauses; `try_s` bounds one try.
    """

    deadline_s: float = 30.0
    try_s: float = 10.0
    first_pause_s: float = 0.05
    pause_s_max: float = 2.0

    def after(self, failure: Failure, *, tries: int, elapsed_s: float, jitter: float) -> Next:
        """What to do after the given number of tries; `jitter` is a random number in [0, 1).

        A pause the server asked for (RetryInfo) is a floor, stretched by up to a half so that
        clients do not return together. A pause that would pass the deadline is not begun.
        """
        if not failure.transient:
            return GiveUp()
        ceiling_s = min(self.pause_s_max, self.first_pause_s * 2.0 ** min(tries - 1, 16))
        pause_s = ceiling_s * jitter
        if failure.retry_after_s is not None:
            pause_s = max(pause_s, failure.retry_after_s * (1 + jitter / 2))
        return Wait(pause_s) if elapsed_s + pause_s < self.deadline_s else GiveUp()

    def try_timeout_s(self, *, elapsed_s: float) -> float:
        """How long the next try may take, in seconds; never negative."""
        return max(0.0, min(self.try_s, self.deadline_s - elapsed_s))
