"""One runtime process: started with its fate, listened to, killed from outside, reaped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ledger.cli.demo.windows import Death, Window

Event = dict[str, str | int]
"""One line of a runtime: `event` says what, the other members which run and step."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What every runtime process of one demo is told."""

    server: str
    token_file: Path
    actions: Path
    shop: Path
    latency_ms: float
    log: Path

    def command(self, death: Death | None) -> list[str]:
        """The command line of a runtime with that death."""
        told = [
            "--server", self.server,
            "--token-file", str(self.token_file),
            "--actions", str(self.actions),
            "--shop", str(self.shop),
            "--latency-ms", str(self.latency_ms),
        ]  # fmt: skip
        if death is not None and death.window is not Window.FROM_OUTSIDE:
            told += ["--die-at", str(death)]
        return [sys.executable, "-P", "-m", "ledger.cli.demo.runtime", *told]


class RuntimeChild:
    """A runtime process, as a with block that leaves no process behind."""

    def __init__(self, launch: Launch, death: Death | None) -> None:
        self._death = death
        self._delay_s = death.delay_s if death is not None else 0.0
        self._log = launch.log.open("ab")
        self._child = subprocess.Popen(
            launch.command(death),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
            process_group=0,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    @property
    def killed(self) -> bool:
        """Whether it died by SIGKILL. Known once its events have ended."""
        return self._child.wait() == -signal.SIGKILL

    @property
    def status(self) -> int:
        """Its exit status. Known once its events have ended."""
        return self._child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()
        self._log.close()

    def events(self) -> Iterator[Event]:
        """What it tells, until it ends. Kills it where its death comes from outside."""
        assert self._child.stdout is not None  # noqa: S101 - it was started with a pipe
        done = 0
        for line in self._child.stdout:
            event = _event(line)
            if event is None:
                continue  # a line that the kill cut off
            yield event
            done += event["event"] == "done"
            if event["event"] == "done" and self._dies_after(done):
                time.sleep(self._delay_s)
                self._child.kill()

    def _dies_after(self, done: int) -> bool:
        """Whether somebody kills it from outside once it has reported so many actions."""
        death = self._death
        return death is not None and death.window is Window.FROM_OUTSIDE and done == death.nth


def _event(line: str) -> Event | None:
    if not line.endswith("\n"):
        return None
    event: Event = json.loads(line)
    return event
