"""Makes a cluster with initdb and starts programs in it."""

from __future__ import annotations

import os
import random
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from tests.support.postgres.account import ServerAccount
from tests.support.postgres.binaries import PostgresBinaries
from tests.support.postgres.folder import ServerFolder

_LOG_TAIL_BYTES = 4000
_STATUS_PLACE = 7  # line of postmaster.pid with the postmaster's state, from 0
_PORTS = range(10240, 32768)  # below the range that outgoing connections take their ports from


class PostgresDidNotStart(Exception):
    """initdb or the server failed; the message ends with the last lines of the server's log."""


def make_cluster(
    folder: ServerFolder,
    binaries: PostgresBinaries,
    account: ServerAccount,
    *,
    superuser: str,
    password: str,
) -> None:
    """initdb: UTF-8, byte order, a password for every way in. Raises PostgresDidNotStart."""
    password_file = folder.path / "superuser-password"
    password_file.unlink(missing_ok=True)
    with open(password_file, "x", encoding="ascii", opener=_private) as file:
        file.write(password)
    account.give(password_file)
    command = account.command(
        binaries.program("initdb"),
        *("-D", str(folder.cluster), "-U", superuser, f"--pwfile={password_file}"),
        *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"),
        # A power cut takes the tests along; what the server writes later is synced by the server.
        "--no-sync",
    )
    if spawn(folder, command).wait() != 0:
        raise PostgresDidNotStart(f"initdb failed:\n{log_tail(folder.log)}")
    password_file.unlink()


def spawn(folder: ServerFolder, command: list[str]) -> subprocess.Popen[bytes]:
    """Starts a command in the cluster folder, its output going to the folder's log."""
    environment = {
        name: value for name, value in os.environ.items() if name in {"PATH", "LD_LIBRARY_PATH"}
    }
    with open(folder.log, "ab", opener=_private) as log:
        return (
            _starter(os.getpid())
            .submit(
                lambda: subprocess.Popen(
                    command,
                    cwd=folder.cluster,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=0,  # Ctrl-C is for the tests, which then stop the server
                )
            )
            .result()
        )


def wait_a_moment(process: subprocess.Popen[bytes]) -> bool:
    """Waits 20 ms or until the process ends; whether it still runs."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(0.02)
    return process.returncode is None


def is_ready(cluster: Path, *, postmaster_pid: int) -> bool:
    """Whether this postmaster has said in postmaster.pid that it accepts connections."""
    try:
        lines = (cluster / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return False
    if len(lines) <= _STATUS_PLACE or int(lines[0]) != postmaster_pid:
        return False
    return lines[_STATUS_PLACE].strip() == "ready"


def free_port() -> int:
    """A loopback TCP port that nobody listens on right now."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def log_tail(log: Path) -> str:
    """The last lines of a server's log."""
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
        return file.read().decode("utf-8", "replace")


@lru_cache(maxsize=1)
def _starter(_owner_pid: int) -> ThreadPoolExecutor:
    # The kernel ends the server with the *thread* that started it, so one that lasts as long as
    # this process starts them all; a forked child, which has no such thread, gets its own.
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="postgres-starter")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
