"""Where the runtime dies: four windows around one tool call, and any moment from outside."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

KILLS_MIN: Final = 6
ACTIONS_PER_KILL: Final = 40
OUTSIDE_S_MAX: Final = 0.05


class Window(StrEnum):
    """A place in the code where a process death leaves a different trace."""

    BEFORE_START = "before_start"
    BEFORE_EFFECT = "before_effect"
    AFTER_EFFECT = "after_effect"
    BEFORE_COMPLETED = "before_completed"
    FROM_OUTSIDE = "from_outside"

    @property
    def words(self) -> str:
        """The place in words."""
        return _WORDS[self]


_WORDS: Final = {
    Window.BEFORE_START: "before start",
    Window.BEFORE_EFFECT: "inside the tool, before its effect",
    Window.AFTER_EFFECT: "inside the tool, after its effect",
    Window.BEFORE_COMPLETED: "after the tool, before completed",
    Window.FROM_OUTSIDE: "from outside, at any moment",
}


@dataclass(frozen=True, slots=True)
class Death:
    """When a runtime process dies: at the `nth` passage of a window.

    From outside it is killed `delay_s` after the `nth` action that it reports.
    """

    window: Window
    nth: int
    delay_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.window.value}:{self.nth}"

    @classmethod
    def parse(cls, text: str) -> Death:
        """Reads what `str` writes. Raises ValueError."""
        window, _, nth = text.partition(":")
        return cls(Window(window), int(nth))

    def soon(self) -> Death:
        """The same death at the next occasion: where its own never came."""
        return Death(self.window, 1, self.delay_s)


class Fate:
    """Kills this process by SIGKILL when its death's window is passed for the nth time."""

    def __init__(self, death: Death | None, last_words: Callable[[Window], None]) -> None:
        self._death = death
        self._last_words = last_words
        self._passed = 0

    def reach(self, window: Window) -> None:
        """Pass a window; returns unless this is where the process dies."""
        if self._death is None or self._death.window is not window:
            return
        self._passed += 1
        if self._passed >= self._death.nth:
            self._last_words(window)
            os.kill(os.getpid(), signal.SIGKILL)


def deaths(seed: int, *, actions: int) -> list[Death]:
    """Every window at least once and `KILLS_MIN` or more in all; the same for the same seed.

    Spread over the work so that even if each comes as late as it can, there is work left for it.
    """
    chance = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    count = max(KILLS_MIN, actions // ACTIONS_PER_KILL)
    windows = list(Window) + chance.choices(list(Window), k=count - len(Window))
    chance.shuffle(windows)
    latest = max(1, actions // (count + 1))
    return [
        Death(
            window,
            chance.randint((latest + 1) // 2, latest),
            round(chance.uniform(0, OUTSIDE_S_MAX), 4),
        )
        for window in windows
    ]
