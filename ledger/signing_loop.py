"""Signs each log's head soon after it moved, so that checkpoints exist without anybody asking."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from functools import partial

from ledger.core.ids import Origin
from ledger.core.log import Log
from ledger.log_reading import NotSigning
from ledger.signing import Checkpoints
from ledger.store.errors import StoreError
from ledger.threads import Threads

OnRefused = Callable[[Log, NotSigning], None]
"""Told, on the event loop, that a log's head may not be signed: stop serving appends of it where it
is a `HistoryRewound`."""


class SigningLoop:
    """Signs at most every `every_ms` [1,000] and only what moved."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        threads: Threads,
        logs: Callable[[], Iterable[Log]],
        *,
        every_ms: int = 1_000,
        on_refused: OnRefused,
    ) -> None:
        self._checkpoints = checkpoints
        self._threads = threads
        self._logs = logs
        self._every_s = every_ms / 1_000
        self._on_refused = on_refused
        self._refused: dict[Origin, str] = {}
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Until `stop`. Trouble of the store is met by trying again at the next turn; a refusal is
        told once, and again when its text changes."""
        while not self._ended.is_set():
            with contextlib.suppress(StoreError):
                for log in await self._threads.run(lambda: list(self._logs())):
                    await self._sign(log)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), self._every_s)

    def stop(self) -> None:
        """Ends `run` after the signing that is under way."""
        self._ended.set()

    async def _sign(self, log: Log) -> None:
        try:
            await self._threads.run(partial(self._checkpoints.sign_if_moved, log))
        except StoreError:
            return
        except NotSigning as refused:
            if self._refused.get(log.origin) != str(refused):
                self._refused[log.origin] = str(refused)
                self._on_refused(log, refused)
            return
        self._refused.pop(log.origin, None)
