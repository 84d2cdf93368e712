"""The command `ledger` as a user runs it: in a process of its own, in a folder of its own."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COMMAND_S_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def final(self) -> dict[str, Any]:
        """The last JSON line."""
        return self.lines[-1]


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Runs `ledger` in `folder`, with no setting of this machine's own."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What the command is started with; a shell that has it finds `ledger` on its path."""
        kept = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("LEDGER_", "PYTEST_"))
            and name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONDONTWRITEBYTECODE")
        }
        places = [str(ROOT), *filter(None, [kept.get("PYTHONPATH")])]
        return {
            **kept,
            "PATH": f"{self._shim()}{os.pathsep}{kept.get('PATH', os.defpath)}",
            "PYTHONPATH": os.pathsep.join(places),
            "PYTHONPYCACHEPREFIX": _compiled(),
            **self.settings,
        }

    def command(self, *arguments: str) -> list[str]:
        """The command line of `ledger` with these arguments."""
        return [sys.executable, "-P", "-m", "ledger.cli", *arguments]

    def __call__(self, *arguments: str, code: int | None = 0) -> Ended:
        """Run it with nothing to read; asserts the exit code unless None is given.

        A process of its own like any other, forked from one that has the command loaded.
        """
        ended = _loaded().run(arguments, folder=self.folder, environment=self.environment)
        shown = f"ledger {' '.join(arguments)}\n{ended.out}\n{ended.err}"
        assert code is None or ended.code == code, f"ended with {ended.code}: {shown}"
        return ended

    def run(self, command: Sequence[str], *, code: int | None = 0) -> Ended:
        """Run any command in the same surroundings."""
        ended = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
        )
        shown = f"{command}\n{ended.stdout}\n{ended.stderr}"
        assert code is None or ended.returncode == code, f"ended with {ended.returncode}: {shown}"
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def start(self, *arguments: str, terminal: int | None = None) -> subprocess.Popen[str]:
        """Start it without waiting; on a terminal's descriptor, if one is given."""
        # Started in the background, a shell has children ignore SIGINT, and theirs in turn.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            stdout=subprocess.PIPE if terminal is None else terminal,
            stderr=subprocess.PIPE if terminal is None else terminal,
            text=True,
            process_group=0,
        )

    def _shim(self) -> Path:
        folder = self.folder / ".bin"
        folder.mkdir(exist_ok=True)
        shim = folder / "ledger"
        if not shim.exists():
            shim.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m ledger.cli "$@"\n')
            shim.chmod(0o755)
        return folder


@cache
def _compiled() -> str:
    """Where the commands of this test process keep compiled modules: none in the checkout, and not
    compiled anew for each test."""
    folder = tempfile.TemporaryDirectory(prefix="ledger-compiled-")
    atexit.register(folder.cleanup)
    return folder.name


_LOADED = """
import json, os, sys
import ledger.cli.app

for line in sys.stdin:
    told = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(told["folder"])
        os.environ.clear()
        os.environ.update(told["environment"])
        for number, path in enumerate((os.devnull, told["out"], told["err"])):
            opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            os.dup2(opened, number)
            os.close(opened)
        sys.stdin = open(0, closefd=False)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)
        sys.argv = ["ledger", *told["arguments"]]
        ledger.cli.main()
        sys.exit(0)
    sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\\n")
    sys.stdout.flush()
"""


class _Loaded:
    """A process that has the command loaded and forks for each one: loading takes most of it."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", _LOADED],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self.stop)

    def run(
        self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str]
    ) -> Ended:
        """Run one command to its end."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with tempfile.TemporaryDirectory(prefix="ledger-said-") as said:
            out, err = Path(said) / "out", Path(said) / "err"
            told = {
                "arguments": list(arguments),
                "folder": str(folder),
                "environment": dict(environment),
                "out": str(out),
                "err": str(err),
            }
            self._child.stdin.write(json.dumps(told) + "\n")
            self._child.stdin.flush()
            code = int(self._child.stdout.readline())
            return Ended(code, out.read_text("utf-8"), err.read_text("utf-8"))

    def stop(self) -> None:
        """End it with the tests."""
        self._child.kill()
        self._child.wait()


_KEPT: list[_Loaded] = []


def _loaded() -> _Loaded:
    """The one of this test process."""
    if not _KEPT:
        _KEPT.append(_Loaded())
    return _KEPT[0]
