"""Waking whoever waits for the log to grow: one loop, many waiters, no lost wake-up.

A wake-up says "look again" and nothing else; it may be false. Waiters also look by themselves after
a while, because the appends of other processes need not wake this one.
"""

from __future__ import annotations

import asyncio
import contextlib


class Wakes:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._count = 0
        self._ended = asyncio.Event()
        self._grown = asyncio.Event()

    @property
    def count(self) -> int:
        """How often it was woken: read before looking, handed to `wait` after."""
        return self._count

    @property
    def closed(self) -> bool:
        """Whether the server is stopping, so that waiting is over."""
        return self._ended.is_set()

    def wake(self) -> None:
        """Wakes every waiter. Callable from any thread, also after the loop has ended."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._wake)

    def close(self) -> None:
        """Ends all waiting, now and from now on."""
        self._ended.set()
        self._wake()

    async def wait(self, *, seen: int, timeout_s: float) -> None:
        """Returns once woken since `seen`, closed, or after `timeout_s` seconds."""
        if self._count != seen or self.closed:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._grown.wait(), timeout_s)

    async def pause(self, seconds: float) -> None:
        """Waits, whatever is appended meanwhile; ends early only when the server stops."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), seconds)

    def _wake(self) -> None:
        self._count += 1
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()
