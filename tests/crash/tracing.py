"""strace on servers: what reaches the disk is listed, or made to fail, to take long, or to be the
last that the process did."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.checkouts import ROOT
from tests.support.server_process import LedgerServer, Process

_WAIT_S: Final = 30.0
_SYNCS: Final = "fdatasync,fsync"


def strace() -> str:
    """The program's path."""
    found = shutil.which("strace")
    if found is None:
        pytest.skip("strace is not installed; .ci/run installs it")
    return found


@contextmanager
def every_sync(fault: str, pids: Sequence[int], files: Sequence[Path] = ()) -> Iterator[None]:
    """While the block runs, every fsync of these processes meets the fault (`error=EIO`,
    `delay_exit=1500000`, `error=EIO:signal=KILL`); with `files`, only theirs."""
    command = [strace(), "-f", "-o", "/dev/null", "-e", f"trace={_SYNCS}"]
    command += ["-e", f"inject={_SYNCS}:{fault}"]
    for option, values in (("-P", files), ("-p", pids)):
        for value in values:
            command += [option, str(value)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    try:
        said = [tracer.stderr.readline() for _ in pids]
        # One that ended meanwhile, as a worker of autovacuum does, has nothing left to sync.
        assert all(" attached" in line or "No such process" in line for line in said), said
        assert any(" attached" in line for line in said), said
        yield
    finally:
        tracer.send_signal(signal.SIGTERM)
        tracer.communicate(timeout=_WAIT_S)


class TracedServer(LedgerServer):
    """A server whose writes and fsyncs of the files of its SQLite database are listed."""

    def __init__(self, folder: Path, database: Path, *, settings: Mapping[str, str]) -> None:
        super().__init__(folder, f"sqlite://{database}", settings=settings)
        self._database = database

    def spawn(self, environment: Mapping[str, str], log: Path) -> Process:
        """See `LedgerServer.spawn`. The tracer is the child, so that signals reach the server."""
        command = [strace(), "-D", "-f", "-y", "-o", str(self._listing), "-s", "0"]
        command += ["-e", f"trace=pwrite64,{_SYNCS}"]
        for file in (self._database, Path(f"{self._database}-wal")):
            command += ["-P", str(file)]
        with log.open("wb") as opened:
            return subprocess.Popen(
                [*command, sys.executable, "-m", "server"],
                cwd=ROOT,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=opened,
                stderr=subprocess.STDOUT,
            )

    def disk(self) -> list[str]:
        """What it did to the database's files since its last start: `write` or `sync`, and of
        which file, each once in a row."""
        found: list[str] = []
        for line in self._listing.read_text(encoding="utf-8", errors="replace").splitlines():
            if "(" not in line or "resumed" in line:
                continue
            verb = "write" if " pwrite64(" in line else "sync"
            done = f"{verb} {'log file' if '-wal' in line else 'database'}"
            if found[-1:] != [done]:
                found.append(done)
        return found

    @property
    def _listing(self) -> Path:
        return self.folder / "disk"
