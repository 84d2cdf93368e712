"""The writing thread of one access log: what waits while it commits goes into the next commit."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from ledger.access_appending import AccessAppender, AccessNotRecorded, rewound, store_failed
from ledger.core.access import Access

BATCH_MAX: Final = 1_000
"""Entries in one commit, unless a single message brings more."""

Outcome = list[int] | AccessNotRecorded


@dataclass(frozen=True, slots=True)
class _Waiting:
    accesses: Sequence[Access]
    done: asyncio.Future[list[int]]
    loop: asyncio.AbstractEventLoop


class AccessWriter:
    """Queues what is to be recorded and commits it in groups. Its thread starts with the first."""

    def __init__(
        self,
        appender: AccessAppender,
        *,
        queued_max: int,
        on_commit: Callable[[], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._appender = appender
        self._queued_max = queued_max
        self._on_commit = on_commit
        self._on_fatal = on_fatal
        self._queue: deque[_Waiting] = deque()
        self._queued = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._refuse: Callable[[], AccessNotRecorded] | None = None
        self._draining = False

    def enqueue(self, accesses: Sequence[Access]) -> asyncio.Future[list[int]]:
        """The future of their indexes, in order. Called on the event loop. Raises
        `AccessNotRecorded` where they are not taken; the future may raise it too."""
        loop = asyncio.get_running_loop()
        with self._changed:
            if self._refuse is not None:
                raise self._refuse()
            if self._draining:
                raise AccessNotRecorded("The server is stopping and records nothing new.")
            if self._queue and self._queued + len(accesses) > self._queued_max:
                raise AccessNotRecorded(
                    "It has to be recorded in the access log first, and more waits to be recorded "
                    "than the server takes.",
                    retry_after_ms=250,
                )
            waiting = _Waiting(accesses, loop.create_future(), loop)
            self._queue.append(waiting)
            self._queued += len(accesses)
            self._start()
            self._changed.notify()
        return waiting.done

    def _start(self) -> None:
        if self._thread is None:
            name = f"access-{self._appender.log.number}"
            self._thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """The log was rewound: nothing is recorded in it any more."""
        with self._changed:
            self._refuse = partial(rewound, self._appender.log)

    def drain(self) -> None:
        """Takes nothing new; what waits is still recorded."""
        with self._changed:
            self._draining = True
            self._changed.notify()

    def join(self, timeout_s: float) -> bool:
        """After `drain`: waits until nothing waits. False on time-out."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # The writing thread

    def _work(self) -> None:
        batch: list[_Waiting] = []
        try:
            while batch := self._take():
                self._do(batch)
        except BaseException as fault:
            # Our own mistake: nobody waits for ever, and nothing more is recorded from here.
            with self._changed:
                self._refuse = store_failed
                batch += self._queue
                self._queue.clear()
            _answer([(waiting, store_failed()) for waiting in batch])
            self._on_fatal(fault)
            raise

    def _take(self) -> list[_Waiting]:
        """What goes into the next commit; nothing once all is done after `drain`."""
        with self._changed:
            while not self._queue:
                if self._draining:
                    return []
                self._changed.wait()
            batch: list[_Waiting] = []
            room = BATCH_MAX
            while self._queue and (not batch or len(self._queue[0].accesses) <= room):
                waiting = self._queue.popleft()
                room -= len(waiting.accesses)
                self._queued -= len(waiting.accesses)
                batch.append(waiting)
            return batch

    def _do(self, batch: list[_Waiting]) -> None:
        outcomes: list[tuple[_Waiting, Outcome]] = []
        try:
            if self._refuse is not None:
                raise self._refuse()
            indexes = self._appender.append([one for each in batch for one in each.accesses])
        except AccessNotRecorded as why:
            outcomes += [(waiting, why) for waiting in batch]
        else:
            for waiting in batch:
                outcomes.append((waiting, indexes[: len(waiting.accesses)]))
                indexes = indexes[len(waiting.accesses) :]
            self._on_commit()
        _answer(outcomes)


def _answer(outcomes: Sequence[tuple[_Waiting, Outcome]]) -> None:
    """One wake-up of each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Waiting, Outcome]]] = {}
    for waiting, outcome in outcomes:
        by_loop.setdefault(waiting.loop, []).append((waiting, outcome))
    for loop, answered in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, answered)


def _resolve(answered: Sequence[tuple[_Waiting, Outcome]]) -> None:
    for waiting, outcome in answered:
        if waiting.done.done():
            continue
        if isinstance(outcome, AccessNotRecorded):
            waiting.done.set_exception(outcome)
        else:
            waiting.done.set_result(outcome)
