"""A bounded pool for calls that block: nothing that waits for a store runs on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Result = TypeVar("_Result")


class Threads:
    """At most `count` blocking calls at once; the others wait their turn."""

    def __init__(self, *, count: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix=name)

    async def run(self, blocking: Callable[[], _Result]) -> _Result:
        """Runs it in a thread. Being cancelled does not stop what already runs."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, blocking)

    def close(self) -> None:
        """Ends the threads when what runs in them has ended; drops what only waits."""
        self._pool.shutdown(wait=True, cancel_futures=True)
