"""The OS account that PostgreSQL runs under, and the way to run a program as it."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_LAUNCHER = Path(__file__).with_name("launch.py")
_PREFERRED_NAMES = ("postgres", "nobody")
_NUMERIC_ID = 65534


@dataclass(frozen=True, slots=True)
class ServerAccount:
    """`drops` says that this process is root and PostgreSQL, which refuses root, gets another
    uid."""

    uid: int
    gid: int
    drops: bool

    def command(self, program: Path, *arguments: str) -> list[str]:
        """The argument vector that runs `program` as this account, to die with the thread that
        starts it."""
        return [*self._launcher(), "exec", str(program), *arguments]

    def reaches(self, paths: Sequence[Path]) -> list[bool]:
        """For each path whether this account can read it (a folder: list and enter it)."""
        return [line == "1" for line in self.ask("access", *map(str, paths))]

    def give(self, path: Path) -> None:
        """Makes this account the owner of a path that this process has just made."""
        if self.drops:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def ask(self, verb: str, *operands: str) -> list[str]:
        """The lines that launch.py answers as this account."""
        command = [*self._launcher(), verb, *operands]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return answer.stdout.splitlines()

    def _launcher(self) -> list[str]:
        # -I -S: neither the caller's PYTHON* variables nor any site package has a say before root
        # is gone.
        return [
            sys.executable,
            "-I",
            "-S",
            str(_LAUNCHER),
            str(self.uid),
            str(self.gid),
            str(os.getpid()),
        ]


def account_owning(path: Path) -> ServerAccount:
    """The account that owns what stands at `path`."""
    found = path.lstat()
    return ServerAccount(found.st_uid, found.st_gid, drops=found.st_uid != os.geteuid())


def server_account() -> ServerAccount:
    """This process's own ids; for root those of `postgres`, `nobody`, or any account that is not
    root."""
    if os.geteuid() != 0:
        return ServerAccount(uid=os.geteuid(), gid=os.getegid(), drops=False)
    accounts = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_uid != 0}
    for entry in [
        *(accounts[name] for name in _PREFERRED_NAMES if name in accounts),
        *accounts.values(),
    ]:
        return ServerAccount(uid=entry.pw_uid, gid=entry.pw_gid, drops=True)
    return ServerAccount(uid=_NUMERIC_ID, gid=_NUMERIC_ID, drops=True)
