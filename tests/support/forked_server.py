"""The real server in forked children: loading its modules takes far longer than starting it.

    python -m tests.support.forked_server

Reads orders from standard input, one JSON object a line, and answers each with one line. Every
server is a fork that runs `python -m server`'s own code. Ends with its input and takes its children
along.
"""

from __future__ import annotations

import ctypes
import json
import os
import runpy
import signal
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

_PARENT_DEATH_SIGNAL: Final = 1


def settle_in(order: dict[str, Any]) -> None:
    """Gives this forked child the environment and the log of its order; it dies with its parent."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    for name in [name for name in os.environ if name.startswith("LEDGER_")]:
        del os.environ[name]
    os.environ.update(order["environment"])
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for wanted, found in ((0, nothing), (1, log), (2, log)):
        os.dup2(found, wanted)


def run_server() -> NoReturn:
    """Runs `python -m server` in this process, and ends the process as that does."""
    status = 1
    try:
        runpy.run_module("server", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        status = int(ended.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def become_server(order: dict[str, Any]) -> NoReturn:
    """Turns this forked child into the server that `order` describes."""
    settle_in(order)
    run_server()


def nurse(become: Callable[[dict[str, Any]], NoReturn]) -> None:
    """Starts children that become what an order describes, and tells how they ended, until the
    input ends."""
    running: set[int] = set()
    for line in sys.stdin:
        order = json.loads(line)
        match order["do"]:
            case "start":
                pid = os.fork()
                if pid == 0:
                    become(order)
                running.add(pid)
                answer: int | None = pid
            case "status":
                ended, status = os.waitpid(order["pid"], os.WNOHANG)
                if ended:
                    running.discard(ended)
                answer = os.waitstatus_to_exitcode(status) if ended else None
            case other:
                raise AssertionError(other)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def fork_servers(become: Callable[[dict[str, Any]], NoReturn]) -> None:
    """Starts servers as `nurse` does, with everything loaded that a server needs."""
    import server  # noqa: F401 - before the forks

    nurse(become)


if __name__ == "__main__":
    fork_servers(become_server)
