"""Servers that die where a test says: the parent of them all, and one of them as a test sees it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import grpc

from ledger.store.settings import Moment
from tests.crash.dying_server import FOLDER_VARIABLE
from tests.support.server_process import ROOT, LedgerServer

_WAIT_S: Final = 30.0
_NO_SWEEP: Final = {"LEDGER_SWEEP_MS": "3600000", "LEDGER_CHECK_MS": "600000"}
"""Nothing but the test's own commands reaches the writing thread, so statements can be counted."""


@dataclass(frozen=True, slots=True)
class Window:
    """A place in an append: before or after its statement of that number, counted from 1."""

    number: int
    moment: Moment

    def __str__(self) -> str:
        return f"{self.moment} {self.number}"


class Nursery:
    """The process that forks servers, or what another module makes of its forks. One for a test
    process."""

    def __init__(self, module: str = "tests.crash.dying_server") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def start(self, environment: Mapping[str, str], log: Path) -> int:
        """Starts a server; answers its process id."""
        pid: int = self._ask({"do": "start", "environment": dict(environment), "log": str(log)})
        return pid

    def status(self, pid: int) -> int | None:
        """How a server ended, None while it runs; negative for a signal. Ended: told once."""
        status: int | None = self._ask({"do": "status", "pid": pid})
        return status

    def close(self) -> None:
        """Ends it and every server of it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=_WAIT_S)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _ask(self, order: object) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(order).encode() + b"\n")
        stdin.flush()
        ready, _, _ = select.select([stdout], [], [], _WAIT_S)
        assert ready, "the nursery does not answer"
        return json.loads(stdout.readline())


class Child:
    """A process of the nursery, with what `LedgerServer` asks of one."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery = nursery
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.status(self.pid)
        return self.returncode

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            assert time.monotonic() < deadline, "the process does not end"
            time.sleep(0.002)  # pause: between looks at the child
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class MortalServer(LedgerServer):
    """A server that can be told where to die or to wait. Restarts serve the same address."""

    def __init__(
        self,
        nursery: Nursery,
        folder: Path,
        store_url: str,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        given = {**_NO_SWEEP, FOLDER_VARIABLE: str(folder), **(settings or {})}
        super().__init__(folder, store_url, settings=given)
        self.store_url = store_url
        self.keys = Path(given.get("LEDGER_KEYS_DIR", folder / "keys"))
        self._nursery = nursery

    def spawn(self, environment: Mapping[str, str], log: Path) -> Child:
        """See `LedgerServer.spawn`."""
        return Child(self._nursery, self._nursery.start(environment, log))

    def channel(self) -> grpc.Channel:
        """A channel that shares no connection, and no memory of refused ones, with another."""
        options = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
        return grpc.insecure_channel(self.address, options=options)

    def arm(self, act: Literal["die", "wait"], window: Window, *, kind: str = "") -> None:
        """From the next statement of the writing thread on, statements are counted: all, or those
        of one kind."""
        for name in ("seen", "reached", "go-on"):
            (self.folder / name).unlink(missing_ok=True)
        order = self.folder / "order-next"
        order.write_text(f"{act} {window.number} {window.moment} {kind}", encoding="ascii")
        order.rename(self.folder / "order")

    def seen(self) -> list[str]:
        """Statements since it was armed, `number moment kind` each."""
        try:
            return (self.folder / "seen").read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            return []

    def died(self) -> bool:
        """Whether it is dead by the order; waits for nothing."""
        return self._process is not None and self._process.poll() == -signal.SIGKILL

    def bury(self) -> None:
        """Waits until it is dead by the order."""
        assert self.wait() == -signal.SIGKILL, self.log()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The block runs once the server waits at its window; afterwards the server goes on."""
        deadline = time.monotonic() + _WAIT_S
        while not (self.folder / "reached").exists():
            assert time.monotonic() < deadline, f"not reached; seen: {self.seen()}"
            time.sleep(0.002)  # pause: between looks at what the server has reached
        try:
            yield
        finally:
            (self.folder / "go-on").touch()
