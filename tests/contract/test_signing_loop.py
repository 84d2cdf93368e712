"""Heads are signed soon after they moved, and a refusal is told once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from ledger.core.log import Log
from ledger.log_keys import LogKeys
from ledger.log_reading import NotSigning
from ledger.marks import Marks
from ledger.signing import Checkpoints, HistoryRewound
from ledger.signing_loop import SigningLoop
from ledger.store.interface import Store
from ledger.threads import Threads
from tests.support.logs import LOG, events, make_log, write

DEADLINE_S = 30.0


async def until(condition: Callable[[], bool]) -> None:
    """Waits until the condition holds. Raises TimeoutError."""
    deadline_s = time.monotonic() + DEADLINE_S
    while not await asyncio.to_thread(condition):
        if time.monotonic() > deadline_s:
            raise TimeoutError
        await asyncio.sleep(0.01)  # pause: between two looks


async def test_a_head_that_moved_is_signed_and_a_refusal_is_told_once(
    store: Store, tmp_path: Path
) -> None:
    make_log(store)
    marks = Marks(tmp_path / "mark")
    checkpoints = Checkpoints(store, keys=LogKeys(tmp_path / "keys"), marks=marks)
    checkpoints.begin(LOG)
    refused: list[tuple[Log, NotSigning]] = []
    turns = 0

    def logs() -> list[Log]:
        nonlocal turns
        turns += 1
        return [LOG]

    threads = Threads(count=1, name="signing")
    loop = SigningLoop(
        checkpoints,
        threads,
        logs,
        every_ms=10,
        on_refused=lambda log, why: refused.append((log, why)),
    )
    running = asyncio.create_task(loop.run())
    try:
        for first in (0, 10):
            await asyncio.to_thread(write, store, events(first=first))
            with store.read() as reading:
                size = reading.head(LOG.number).size
            await until(lambda size=size: checkpoints.published(LOG, limit=1)[0].size == size)  # type: ignore[misc]
        marks.path(LOG.origin).unlink()
        await asyncio.to_thread(write, store, events(first=20))
        await until(lambda: bool(refused))
        seen = turns
        await until(lambda: turns > seen + 5)
    finally:
        loop.stop()
        await running
        threads.close()
    assert [(log, type(why)) for log, why in refused] == [(LOG, HistoryRewound)]
