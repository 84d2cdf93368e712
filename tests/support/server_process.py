"""A real server in a process of its own: started on a free port, stopped, killed, started again."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import grpc

from tests.support.nursery import Child, servers_nursery

_START_S = 30.0
_STOP_S = 30.0


class Process(Protocol):
    """What is asked of a server's process."""

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def returncode(self) -> int | None:
        """How it ended, negative for a signal; None before that was seen."""

    def poll(self) -> int | None:
        """Looks whether it has ended."""

    def wait(self, timeout: float) -> int:
        """Waits until it has ended."""

    def send_signal(self, number: int, /) -> None:
        """Sends a signal, unless it has ended."""

    def kill(self) -> None:
        """Sends SIGKILL."""


class LedgerServer:
    """`python -m server` on a data folder and a store; the same address again after a restart.

    A process of its own like any other, forked from one that has the server loaded."""

    def __init__(
        self, folder: Path, store_url: str = "", *, settings: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.store_url = store_url
        self._settings = dict(settings or {})
        self._process: Process | None = None
        self._listen = "127.0.0.1:0"
        self._starts = 0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        """Where it serves, `host:port`. Only after `start`."""
        return self._listen

    @property
    def pid(self) -> int:
        """Its process id. Only while it runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> LedgerServer:
        """Starts it and waits until it serves."""
        ready = self.begin()
        deadline = time.monotonic() + _START_S
        while not ready.exists():
            assert self._process is not None
            if self._process.poll() is not None:
                raise AssertionError(
                    f"the server ended with {self._process.returncode}:\n{self.log()}"
                )
            assert time.monotonic() < deadline, f"the server is not ready:\n{self.log()}"
            time.sleep(0.01)  # pause: between looks at the ready file
        self._listen = json.loads(ready.read_bytes())["address"]
        return self

    def begin(self) -> Path:
        """Starts it without waiting; answers the file that it writes when it serves."""
        assert self._process is None, "it runs already"
        self._starts += 1
        ready = self.folder / f"ready-{self._starts}"
        ready.unlink(missing_ok=True)  # of another server that served this folder before
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LEDGER_")}
        environment |= {
            "LEDGER_DATA": str(self.folder),
            "LEDGER_LISTEN": self._listen,
            "LEDGER_READY_FILE": str(ready),
            "LEDGER_LOG_FORMAT": "json",
            **({"LEDGER_STORE": self.store_url} if self.store_url else {}),
            **self._settings,
        }
        self._process = self.spawn(environment, self.folder / f"log-{self._starts}")
        return ready

    def spawn(self, environment: Mapping[str, str], log: Path) -> Process:
        """Makes the process. A test that needs another kind of process makes it here."""
        return Child(servers_nursery(), servers_nursery().start(environment, log))

    def wait(self) -> int:
        """Waits until it ends by itself, and answers its exit status."""
        assert self._process is not None
        status = self._process.wait(timeout=_STOP_S)
        self._process = None
        return status

    def terminate(self) -> None:
        """Asks it to stop, without waiting."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """Asks it to stop and waits; answers its exit status."""
        self.terminate()
        return self.wait()

    def kill(self) -> None:
        """Kills it where it stands."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(timeout=_STOP_S)
        self._process = None

    def close(self) -> None:
        """Leaves no process behind."""
        if self._process is not None:
            self.kill()

    @property
    def is_running(self) -> bool:
        """Whether it was started and neither stopped nor killed since."""
        return self._process is not None

    def log(self) -> str:
        """Everything it printed since its last start."""
        return (self.folder / f"log-{self._starts}").read_text(encoding="utf-8", errors="replace")

    def token(self, name: str = "runtime") -> str:
        """The token of an embedded principal."""
        return (self.folder / "tokens" / name).read_text(encoding="ascii").strip()

    def channel(self) -> grpc.Channel:
        """A channel to it, without a token."""
        return grpc.insecure_channel(self.address, options=[("grpc.enable_retries", 0)])

    def __repr__(self) -> str:
        return f"LedgerServer({self.address})"
