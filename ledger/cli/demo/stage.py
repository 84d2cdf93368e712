"""What a spectator sees while the demo runs: lines and a bar, plain lines, or JSON lines."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from ledger.cli.screen import Screen

_STYLES: Final = {
    "killed": "bold red",
    "unknown": "bold yellow",
    "asked": "yellow",
    "settled": "green",
    "waits": "dim",
    "again": "magenta",
    "holds": "cyan",
    "verified": "bold green",
}
_QUARTERS: Final = 4


@dataclass(slots=True)
class Stage:
    """Tells what happens, as it happens. A with block that leaves the terminal as it was."""

    screen: Screen
    total: int
    _began_s: float = field(default_factory=time.monotonic)
    _bar: Progress | None = None
    _task: TaskID | None = None
    _quarter: int = 0

    def __enter__(self) -> Self:
        if not self.screen.machine and self.screen.out.is_terminal:
            self._bar = Progress(
                TextColumn("          "),
                BarColumn(bar_width=40),
                MofNCompleteColumn(),
                TextColumn("actions done"),
                console=self.screen.out,
                transient=True,
            )
            self._task = self._bar.add_task("", total=self.total)
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.lower()

    def lower(self) -> None:
        """Take the bar away; lines go on."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began_s

    def tell(self, kind: str, text: str, **facts: str | int) -> None:
        """One thing that happened, in words; `facts` are the same for programs.

        Without words it is for programs only.
        """
        if self.screen.machine:
            self.screen.item({"event": kind, "at_s": round(self.elapsed_s, 3), **facts})
            return
        if not text:
            return
        line = Text.assemble(
            (f"{self.elapsed_s:6.1f} s  ", "dim"), (f"{kind:<11}", _STYLES.get(kind, "bold")), text
        )
        self._console.print(line, highlight=False, soft_wrap=True)

    def done(self, count: int) -> None:
        """How many actions are done by now."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=count)
            return
        quarter = _QUARTERS * count // self.total
        if quarter > self._quarter and not self.screen.machine:
            self._quarter = quarter
            self.tell("done", f"{count} of {self.total} actions")

    @property
    def _console(self) -> Console:
        return self.screen.out if self._bar is None else self._bar.console
