"""The newest head of the log that a client was shown, told again with what it sends (formats, 3).

So a client finds out that acknowledged entries are gone even where the server cannot know it: its
database was set back to an older copy, or another one answers at the address.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.message import Message

from ledger.client.words import LogName
from ledger.v1 import run_service_pb2 as runs

_FIELD: Final = "last_head_seen"
_LEAF_BYTES: Final = 32


class HeadMemory:
    """What one connection was shown: one server's log of one tenant. Never written down.

    Safe from several threads and after a fork: one reference is exchanged whole. Where two threads
    exchange it at once an older head may stay, which is as true.
    """

    __slots__ = ("_newest",)

    def __init__(self) -> None:
        self._newest: tuple[int, bytes] = (0, b"")

    @property
    def size(self) -> int:
        """How many entries the log had at least when it was last seen; 0 before the first."""
        return self._newest[0]

    def tell(self, request: Message) -> None:
        """Puts the newest head into a request that has a place for it, unless it is about another
        log than the one that was shown."""
        size, leaf_hash = self._newest
        if getattr(request, "log", LogName.UNSPECIFIED) == LogName.ACCESS:
            return
        if size and _FIELD in request.DESCRIPTOR.fields_by_name:
            held: Any = request
            held.last_head_seen.size = size
            held.last_head_seen.leaf_hash = leaf_hash

    def note(self, answer: Message) -> None:
        """Remembers the newest head that an answer shows."""
        for size, leaf_hash in _heads(answer):
            if size > self._newest[0] and len(leaf_hash) == _LEAF_BYTES:
                self._newest = (size, leaf_hash)


def _heads(answer: Any) -> Iterator[tuple[int, bytes]]:
    """Sizes and last leaves of an answer: of what was appended, and of a run's last entry."""
    if isinstance(answer, runs.SubmitResponse):
        for result in answer.results:
            if (which := result.WhichOneof("result")) is not None:
                yield from _heads(getattr(result, which))
        return
    fields = answer.DESCRIPTOR.fields_by_name
    if "append" in fields and answer.append.entries:
        yield answer.append.index + 1, answer.append.leaf_hash
    run = fields.get("run")
    if run is not None and run.message_type is runs.Run.DESCRIPTOR:
        yield answer.run.index + 1, answer.run.head
