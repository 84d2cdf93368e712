"""Where a process dies while a run is driven: the named windows, and who dies there."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final, Self


class Window(StrEnum):
    """A place between two durable things, in which a death leaves a trace of its own."""

    AFTER_PLAN = "after plan"
    BEFORE_START = "before start"
    START_COMMITTED = "start committed, not answered"
    BEFORE_EFFECT = "inside the tool, before its effect"
    AFTER_EFFECT = "inside the tool, after its effect"
    BEFORE_COMPLETE = "after the tool, before complete"
    COMPLETE_COMMITTED = "complete committed, not answered"
    TAKEOVER_BEGUN = "inside takeover, not committed"
    TAKEOVER_COMMITTED = "inside takeover, committed"
    RECONCILE_BEGUN = "inside reconcile, not committed"
    RECONCILE_COMMITTED = "inside reconcile, committed"
    CLOSE_BEGUN = "inside close, not committed"
    CLOSE_COMMITTED = "inside close, committed"
    SWEEP_BEGUN = "inside sweep, not committed"
    SWEEP_COMMITTED = "inside sweep, committed"

    @property
    def role(self) -> Role:
        """Whose work passes this window."""
        if self in (Window.RECONCILE_BEGUN, Window.RECONCILE_COMMITTED):
            return Role.CONFIRMER
        if self in (Window.SWEEP_BEGUN, Window.SWEEP_COMMITTED):
            return Role.SWEEP
        return Role.RUNTIME

    @property
    def call(self) -> str:
        """The call that is cut in this window; empty where the window is between calls."""
        return _CALLS.get(self, "")

    @property
    def commits(self) -> bool:
        """Whether the call that is cut was committed."""
        return self.name.endswith("_COMMITTED")


class Role(StrEnum):
    """Who does the work in which a window lies."""

    RUNTIME = "runtime"
    CONFIRMER = "confirmer"
    SWEEP = "sweep"


class Victim(StrEnum):
    """Who dies."""

    CLIENT = "the runtime or confirmer"
    SERVER = "the server"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Death:
    """The victim dies at the `nth` time that one process passes the window, counted from 1."""

    window: Window
    victim: Victim
    nth: int = 1

    def told(self) -> dict[str, str | int]:
        """As JSON members, for `of`."""
        return asdict(self)

    @classmethod
    def of(cls, told: dict[str, str | int]) -> Self:
        """What `told` was made from."""
        return cls(Window(str(told["window"])), Victim(str(told["victim"])), nth=int(told["nth"]))

    def __str__(self) -> str:
        return f"{self.victim} at {self.window} #{self.nth}"


_CALLS: Final = {
    Window.START_COMMITTED: "StartStep",
    Window.COMPLETE_COMMITTED: "CompleteStep",
    Window.TAKEOVER_BEGUN: "AcquireLease",
    Window.TAKEOVER_COMMITTED: "AcquireLease",
    Window.RECONCILE_BEGUN: "Reconcile",
    Window.RECONCILE_COMMITTED: "Reconcile",
    Window.CLOSE_BEGUN: "CloseRun",
    Window.CLOSE_COMMITTED: "CloseRun",
}

LAST_ENTRIES: Final = {
    Window.AFTER_PLAN: {"step.planned"},
    Window.BEFORE_START: {"step.planned", "lease.acquired", "lease.expired", "step.reconciled"},
    Window.START_COMMITTED: {"step.started"},
    Window.BEFORE_EFFECT: {"step.started"},
    Window.AFTER_EFFECT: {"step.started"},
    Window.BEFORE_COMPLETE: {"step.started"},
    Window.COMPLETE_COMMITTED: {"step.completed"},
    Window.TAKEOVER_COMMITTED: {"lease.acquired"},
    Window.RECONCILE_COMMITTED: {"step.reconciled"},
    Window.CLOSE_COMMITTED: {"run.closed"},
    Window.SWEEP_COMMITTED: {"step.unknown", "lease.expired"},
}
"""The run's last entry in a window: how a death proves that it came where it was meant to."""

COMMITTED_TWINS: Final = {
    Window.TAKEOVER_BEGUN: Window.TAKEOVER_COMMITTED,
    Window.RECONCILE_BEGUN: Window.RECONCILE_COMMITTED,
    Window.CLOSE_BEGUN: Window.CLOSE_COMMITTED,
    Window.SWEEP_BEGUN: Window.SWEEP_COMMITTED,
}
"""The window that a call which was not committed would have come to."""
