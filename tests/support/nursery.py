"""Processes that fork servers for tests, and one forked child as a test sees it."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support.checkouts import ROOT

_WAIT_S: Final = 30.0


class Nursery:
    """The process that forks servers, or what another module makes of its forks. One for a test
    process."""

    def __init__(self, module: str = "tests.support.forked_server") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._turn = threading.Lock()  # an order and its answer, whichever thread asks

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
        with self._turn:
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


@cache
def servers_nursery() -> Nursery:
    """The one that forks plain servers for this test process; it ends with the process."""
    made = Nursery()
    atexit.register(made.close)
    return made
