"""An agent that acts once and then leaves its body in a way that no with block foresees.

python -m tests.e2e.sdk.leaving_agent ADDRESS TOKEN_FILE KIND WAY RUN FOLDER
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
from pathlib import Path
from typing import Final

from ledger.client import AsyncEffect, AsyncLedger, Effect, Ledger
from tests.crash.outside import World
from tests.e2e.sdk.agent import PAY

LEASE_S: Final = 5.0
OPERATION_S: Final = 1.0


class Leaving:
    """What the agent does in its body."""

    def __init__(self, way: str, run: str, folder: str) -> None:
        self._way = way
        self._run = run
        self._world = World(Path(folder))

    def act(self, effect: Effect | AsyncEffect) -> None:
        """The effect, and the way out of the body; returns only where the way is a return."""
        self._world.act(run=self._run, action="pay", key=effect.key)
        match self._way:
            case "sys.exit":
                sys.exit(0)
            case "os._exit":
                os._exit(0)
            case "interrupt":
                os.kill(os.getpid(), signal.SIGINT)
            case "a child that exits":
                self._fork()
            case "a report at exit":
                pass
            case other:
                raise SystemExit(f"no such way: {other}")

    def _fork(self) -> None:
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        os.waitpid(pid, 0)


def blocking(address: str, token_file: str, leaving: Leaving, way: str, run_id: str) -> None:
    """The blocking client."""
    client = Ledger.connect(address, token_file=token_file)
    with client.run(run_id, holder="leaver", ttl_s=LEASE_S) as run:
        run.plan([PAY])
        effect = run.effect("s1", timeout_s=OPERATION_S)
        if way == "a report at exit":
            effect.__enter__()
            leaving.act(effect)
            atexit.register(effect.succeeded, {"paid": 12})
            run.stop("leaving")
            return
        with effect:
            leaving.act(effect)
            effect.succeeded({"paid": 12})


async def in_asyncio(address: str, token_file: str, leaving: Leaving, run_id: str) -> None:
    """The asyncio client."""
    async with (
        AsyncLedger.connect(address, token_file=token_file) as client,
        client.run(run_id, holder="leaver", ttl_s=LEASE_S) as run,
    ):
        await run.plan([PAY])
        async with run.effect("s1", timeout_s=OPERATION_S) as effect:
            leaving.act(effect)
            await asyncio.sleep(0)  # pause: where a signal's cancellation meets the body
            await effect.succeeded({"paid": 12})


def main() -> None:
    """Leave."""
    address, token_file, kind, way, run, folder = sys.argv[1:]
    leaving = Leaving(way, run, folder)
    if kind == "blocking":
        blocking(address, token_file, leaving, way, run)
    else:
        asyncio.run(in_asyncio(address, token_file, leaving, run))


if __name__ == "__main__":
    main()
