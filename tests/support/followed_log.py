"""The log of a server that many tests share, verified after each as far as it is new."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ledger.core.entry import Entry, read_entry
from ledger.core.merkle import Frontier
from ledger.core.proof_check import verify_consistency, verify_inclusion
from ledger.v1 import log_service_pb2 as log_pb
from tests.support.calls import Calls
from tests.support.server_process import LedgerServer


@cache
def followed_log(server: LedgerServer) -> FollowedLog:
    """The log of a shared server, as far as the tests of this process have verified it."""
    return FollowedLog(server)


class FollowedLog:
    """The log of a server that many tests share, verified as far as it is new."""

    def __init__(self, server: LedgerServer) -> None:
        self._server = server
        self._frontier = Frontier()
        self._size = 0
        self._seen = _Seen()

    def verify_new(self) -> None:
        """What was appended since the last time, and that the log of then is a prefix of this one.

        Raises as `verify_whole_log` does. What was read before is not read again: at the end of
        the server, `verify_whole_log` does that.
        """
        calls = Calls(self._server, "admin")
        try:
            entries = _entries_from(calls, self._size)
            if not entries:
                return
            self._seen.take(entries)
            frontier = self._frontier.extend(entry.leaf_hash for entry in entries)
            size = self._size + len(entries)
            for index in {self._size, size - 1}:
                _verify_inclusion(calls, entries[index - self._size], index, size, frontier.root())
            if self._size:
                _verify_consistency(calls, self._size, self._frontier.root(), size, frontier.root())
            self._frontier, self._size = frontier, size
        finally:
            calls.close()


class _Seen:
    """What the entries so far say of the next: heads of the runs, requests, time."""

    def __init__(self) -> None:
        self._origin = ""
        self._heads: dict[str, Entry] = {}
        self._parts: set[tuple[str, str, int]] = set()
        self._last_us = 0

    def take(self, entries: Sequence[Entry]) -> None:
        """The next entries; each must fit."""
        for entry in entries:
            self._origin = self._origin or entry.origin
            assert entry.origin == self._origin
            assert entry.recorded_at_us >= self._last_us
            self._last_us = entry.recorded_at_us
            before = self._heads.get(entry.run_id)
            assert entry.version == (0 if before is None else before.version + 1)
            assert entry.prev == (None if before is None else before.leaf_hash)
            self._heads[entry.run_id] = entry
            self._take_part(entry)

    def _take_part(self, entry: Entry) -> None:
        event = entry.event
        assert isinstance(event["actor"], dict)
        assert isinstance(event["request"], dict)
        request = event["request"]
        assert isinstance(request["part"], int)
        part = (str(event["actor"]["id"]), str(request["id"]), request["part"])
        assert part not in self._parts, "an event was recorded twice"
        self._parts.add(part)


def _verify_inclusion(calls: Calls, entry: Entry, index: int, size: int, root: bytes) -> None:
    asked = log_pb.GetInclusionProofRequest(index=index, tree_size=size)
    proof = calls.call("GetInclusionProof", asked)
    assert proof.root == root
    verify_inclusion(
        leaf=entry.leaf_hash, index=index, size=size, proof=list(proof.hashes), root=root
    )


def _verify_consistency(
    calls: Calls, old_size: int, old_root: bytes, size: int, root: bytes
) -> None:
    asked = log_pb.GetConsistencyProofRequest(old_size=old_size, new_size=size)
    verify_consistency(
        old_size=old_size,
        old_root=old_root,
        new_size=size,
        new_root=root,
        proof=list(calls.call("GetConsistencyProof", asked).hashes),
    )


def _entries_from(calls: Calls, start: int) -> list[Entry]:
    """Every entry from `start` on, read in pages, each checked as a reader must (formats, section
    1)."""
    found: list[Entry] = []
    while True:
        index = start + len(found)
        page = calls.call("ListEntries", log_pb.ListEntriesRequest(start=index, page_size=500))
        for answered in page.entries:
            assert answered.index == index
            found.append(read_entry(answered.entry, index=index))
            index += 1
        if index >= page.size:
            assert index == page.size, "the log is shorter than it was"
            return found
