"""`python -m server` as a child process: started, waited for, told to stop, never left behind."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from ledger.cli.stops import Code, Stop, extra_missing

READY_S_MAX: Final = 60.0
STOP_S_MAX: Final = 30.0
_LOOK_S: Final = 0.02
_NEEDED: Final = ("pydantic_settings", "eventsourcing", "structlog", "grpc_health")


def require_server_parts(command: str) -> None:
    """Raise `Stop` naming the extra where this install has no server."""
    for name in (*_NEEDED, "server"):
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise extra_missing(ModuleNotFoundError(name, name=name), command=command)


@dataclass(slots=True)
class ServerChild:
    """A server that this process started."""

    child: subprocess.Popen[bytes]
    address: str

    @classmethod
    def start(
        cls,
        environment: Mapping[str, str],
        *,
        log: IO[bytes] | None = None,
        log_path: Path | None = None,
    ) -> ServerChild:
        """Start it with exactly these settings and wait until it serves.

        `environment` is the child's whole environment. It stands in a process group of its own: a
        Ctrl-C on the terminal reaches us, and we pass on what it means. Its standard input is a
        pipe that ends with this process, however that ends, and the server stops then. Raises
        `Stop` where it ends before it serves, or does not serve within 60 s.
        """
        with tempfile.TemporaryDirectory(prefix="ledger-ready-") as folder:
            ready = Path(folder) / "ready"
            # -P: a file of the name server.py in the present folder is not ours.
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "server"],
                env={
                    **environment,
                    "LEDGER_READY_FILE": str(ready),
                    "LEDGER_STOP_WITH_STDIN": "true",
                },
                stdin=subprocess.PIPE,
                stdout=log if log is not None else subprocess.DEVNULL,
                stderr=log,
                process_group=0,
            )
            started = cls(child, "")
            try:
                started.address = started._wait(ready, log_path)
            except BaseException:
                started.stop()
                raise
        return started

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.child.pid

    def signal(self, number: int) -> None:
        """Pass a signal on, if it still runs."""
        if self.child.poll() is None:
            self.child.send_signal(number)

    def wait(self) -> int:
        """Wait until it ends; answers its exit status."""
        return self.child.wait()

    def stop(self) -> int:
        """Tell it to drain and end, then wait; kills it where it does not within 30 s."""
        self.signal(signal.SIGTERM)
        try:
            return self.child.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.child.kill()
            return self.child.wait()

    def ended(self, log_path: Path) -> Stop | None:
        """What to say if it ended by itself; None while it runs."""
        status = self.child.poll()
        if status is None:
            return None
        return Stop(
            f"the server ended by itself with status {status}." + last_words(log_path),
            safe="What it acknowledged is durable, and nothing runs without its word.",
            next=f"Its log says why: {log_path}",
            code=Code.UNAVAILABLE,
        )

    def _wait(self, ready: Path, log_path: Path | None) -> str:
        until_s = time.monotonic() + READY_S_MAX
        while not ready.exists():
            status = self.child.poll()
            if status is not None:
                raise Stop(
                    f"the server ended with status {status} before it served."
                    + last_words(log_path),
                    safe="Nothing was acknowledged by it; what was on disk is untouched.",
                    next="Mend what it says above or in its log, and start it again.",
                    code=Code.UNAVAILABLE,
                )
            if time.monotonic() > until_s:
                raise Stop(
                    f"the server did not serve within {READY_S_MAX:.0f} s." + last_words(log_path),
                    safe="It was stopped again.",
                    next="Look into its log; a database that does not answer is the usual reason.",
                    code=Code.UNAVAILABLE,
                )
            time.sleep(_LOOK_S)
        return str(json.loads(ready.read_text("utf-8"))["address"])


def bare_environment() -> dict[str, str]:
    """This process's environment without any setting of a ledger: for a server of our own."""
    return {name: text for name, text in os.environ.items() if not name.startswith("LEDGER_")}


def last_words(log_path: Path | None) -> str:
    """The last line of a server's log, as the end of a sentence; empty where there is none."""
    if log_path is None or not log_path.exists():
        return ""
    lines = log_path.read_text("utf-8", "replace").strip().splitlines()
    return f" Its last words ({log_path}): {lines[-1]}" if lines else ""
