"""Open streams: how many there may be, and how they wait without holding anything.

Between two messages a stream holds no snapshot, no connection and no thread, so that a slow reader
costs the memory of one answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2 as details_pb
from google.rpc.status_pb2 import Status

from ledger.failures import Failure, FailureKind
from ledger.service import statuses
from ledger.service.boundary import Ended
from ledger.service.metrics import Metrics
from ledger.wakes import Wakes

_LOOK_EVERY_S = 0.05


class Streams:
    """The streams of one server; belongs to its event loop."""

    def __init__(self, *, most: int, poll_s: float, wakes: Wakes, metrics: Metrics) -> None:
        self._most = most
        self._poll_s = poll_s
        self._wakes = wakes
        self._metrics = metrics
        self._open = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for one stream. Ends the call where there is none."""
        if self._open >= self._most:
            raise Ended(self._full())
        self._open += 1
        self._metrics.streams(self._open)
        try:
            yield
        finally:
            self._open -= 1
            self._metrics.streams(self._open)

    def look(self) -> int:
        """To be called before reading; ends the call where the server is stopping."""
        if self._wakes.closed:
            raise Ended(statuses.failure_status(Failure(FailureKind.DRAINING)))
        return self._wakes.count

    async def wait(self, *, seen: int, looked_s: float) -> None:
        """Waits until there may be something new since `seen`.

        At most 20 looks a second: many small appends become one answer.
        """
        rest_s = _LOOK_EVERY_S - (time.monotonic() - looked_s)
        if rest_s > 0:
            await self._wakes.pause(rest_s)
        await self._wakes.wait(seen=seen, timeout_s=self._poll_s)

    def _full(self) -> Status:
        return statuses.make_status(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "STREAMS_EXHAUSTED",
            f"The server has {self._most:,} streams open, which is all it may have. Nothing was "
            "changed. Close streams that nobody reads, or try again later.",
            {"durability": statuses.NOT_COMMITTED},
            details_pb.RetryInfo(retry_delay=Duration(seconds=5)),
        )
