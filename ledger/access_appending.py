"""Appending to an access log: the chain, tiles and head of every log, and nothing of runs.

It is a log like the tenant's, in the same store, under the lock of its own head. Nothing here ever
holds the heads of two logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import sleep
from typing import Final

from ledger.committed import known_leaf
from ledger.core.access import Access, chain_events
from ledger.core.chain import Chained, chain
from ledger.core.errors import InvariantViolation
from ledger.core.ids import LOG_RUN, RunId
from ledger.core.log import Log
from ledger.core.merkle import Frontier
from ledger.ledger_time import LedgerTime
from ledger.store.errors import CommitUnknown, DuplicateRow, StoreError, StoreUnavailable
from ledger.store.interface import Appending, Reading, Store
from ledger.store.rows import number, text
from ledger.store.tables import ACCESS_REQUESTS, ENTRIES, TILES, Row
from ledger.store.tree import read_open_tiles

RETRIES_MAX: Final = 3
_RETRY_PAUSE_S: Final = 0.02


class AccessNotRecorded(RuntimeError):
    """It cannot be recorded, so it does not happen (contract, section 10). Says why.

    `retry_after_ms` above 0: worth asking again then. `too_fast`: the caller's own doing.
    """

    def __init__(self, message: str, *, retry_after_ms: int = 0, too_fast: bool = False) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms
        self.too_fast = too_fast


@dataclass(frozen=True, slots=True)
class Placing:
    """Where an access stands: its index, and its part if it is written now, None if it stood."""

    index: int
    part: int | None


@dataclass(frozen=True, slots=True)
class _Written:
    """The log as an append leaves it, and the index of each access."""

    indexes: list[int]
    size: int
    last_leaf: bytes
    frontier: bytes


class AccessAppender:
    """Appends to one access log. Belongs to one thread at a time; blocks."""

    def __init__(self, store: Store, log: Log, time: LedgerTime) -> None:
        self.log = log
        self._store = store
        self._time = time
        self._acknowledged: _Written | None = None

    def append(self, accesses: Sequence[Access]) -> list[int]:
        """Records them, durably and in order, and answers their indexes. One that is to be recorded
        once and stands already is answered with the index it has.

        Raises `AccessNotRecorded`; then none of them was acknowledged, and the same ones may be
        given again: what was recorded once is not recorded twice.
        """
        for attempt in range(RETRIES_MAX):
            if attempt:
                sleep(_RETRY_PAUSE_S * attempt)
            try:
                return self._try(accesses)
            except (StoreUnavailable, DuplicateRow):
                continue
            except StoreError:
                break
        raise store_failed()

    def _try(self, accesses: Sequence[Access]) -> list[int]:
        written: _Written | None = None
        try:
            with self._store.append(self.log.number) as appending:
                self._require_continued(appending)
                written = self._write(appending, accesses)
        except CommitUnknown:
            if written is None or not self._is_committed(written):
                raise store_failed() from None
        if written is None:
            raise InvariantViolation("an append was left without having written")
        if written.last_leaf:
            self._acknowledged = written
        return written.indexes

    def _write(self, appending: Appending, accesses: Sequence[Access]) -> _Written:
        log, head = self.log, appending.locked_head
        now_us = self._time.now_us(head_us=head.time_us, clock_us=appending.locked_clock_us)
        placed = placings(appending, log, accesses, size=head.size)
        new = [
            (access, place)
            for access, place in zip(accesses, placed, strict=True)
            if place.part is not None
        ]
        indexes = [place.index for place in placed]
        if not new:
            return _Written(indexes, head.size, b"", head.frontier)
        events = chain_events(
            [(access, place.part or 0) for access, place in new],
            origin=log.origin,
            size=head.size,
            now_us=now_us,
        )
        chained = chain(
            events,
            origin=log.origin,
            frontier=Frontier.from_bytes(head.frontier),
            recorded_at_us=now_us,
            heads=self._last_leaf(appending),
            open_tiles=read_open_tiles(
                appending, log=log.number, size=head.size, added=len(events)
            ),
        )
        appending.insert(ENTRIES, _entry_rows(log, head.size, new, chained))
        appending.upsert(
            TILES, [(log.number, t.id.level, t.id.index, t.hashes) for t in chained.growth.tiles]
        )
        appending.insert(ACCESS_REQUESTS, _request_rows(log, new))
        frontier = chained.frontier.to_bytes()
        appending.set_head(size=chained.frontier.size, frontier=frontier, time_us=now_us)
        return _Written(indexes, chained.frontier.size, chained.leaves[-1], frontier)

    def _require_continued(self, appending: Appending) -> None:
        """The log still holds what this process acknowledged of it."""
        head, known = appending.locked_head, self._acknowledged
        if known is None or head.frontier == known.frontier:
            return
        leaf = known_leaf(appending, self.log, known.size - 1) if head.size >= known.size else None
        if leaf != known.last_leaf:
            raise rewound(self.log)

    def _last_leaf(self, appending: Appending) -> dict[RunId, bytes]:
        head, known = appending.locked_head, self._acknowledged
        if head.size == 0:
            return {}
        if known is not None and known.frontier == head.frontier:
            return {LOG_RUN: known.last_leaf}
        leaf = known_leaf(appending, self.log, head.size - 1)
        if leaf is None:
            raise InvariantViolation("an access log's head is above its entries")
        return {LOG_RUN: leaf}

    def _is_committed(self, written: _Written) -> bool:
        """After an unclear COMMIT: looks on a new connection, holding the head. Whoever holds it
        knows that the unclear transaction is over."""
        if not written.last_leaf:
            return True
        for attempt in range(RETRIES_MAX):
            if attempt:
                sleep(_RETRY_PAUSE_S * attempt)
            try:
                with self._store.append(self.log.number) as appending:
                    return known_leaf(appending, self.log, written.size - 1) == written.last_leaf
            except StoreError:
                continue
        return False


def placings(reading: Reading, log: Log, accesses: Sequence[Access], *, size: int) -> list[Placing]:
    """Where each access stands or will stand, in order, in a log of `size`."""
    standing = _standing(reading, log, accesses)
    placed: list[Placing] = []
    following = size
    for access in accesses:
        types = standing.setdefault(access.at, {}) if access.once else {}
        index = types.get(access.body.TYPE)
        if index is not None:
            placed.append(Placing(index, None))
            continue
        placed.append(Placing(following, len(types)))
        types[access.body.TYPE] = following
        following += 1
    return placed


def _standing(
    reading: Reading, log: Log, accesses: Sequence[Access]
) -> dict[tuple[str, str], dict[str, int]]:
    """The index of each type that a request has entries of, by request."""
    asked: list[Row] = [
        (log.number, *at) for at in dict.fromkeys(one.at for one in accesses if one.once)
    ]
    if not asked:
        return {}
    found: dict[tuple[str, str], dict[str, int]] = {}
    for row in reading.get_by(ACCESS_REQUESTS, ("log", "principal", "request_id"), asked):
        _, principal, request_id, _, event_type, index = row
        types = found.setdefault((text(principal), text(request_id)), {})
        types[text(event_type)] = number(index)
    return found


def _entry_rows(
    log: Log, size: int, new: Sequence[tuple[Access, Placing]], chained: Chained
) -> list[Row]:
    return [
        (log.number, size + at, LOG_RUN, size + at, access.body.TYPE, entry, leaf)
        for at, ((access, _), entry, leaf) in enumerate(
            zip(new, chained.entries, chained.leaves, strict=True)
        )
    ]


def _request_rows(log: Log, new: Sequence[tuple[Access, Placing]]) -> list[Row]:
    return [
        (log.number, *access.at, place.part, access.body.TYPE, place.index)
        for access, place in new
        if access.once
    ]


def store_failed() -> AccessNotRecorded:
    """The store cannot keep it now."""
    return AccessNotRecorded(
        "It has to be recorded in the access log first, and the store cannot promise now that the "
        "entry is durable.",
        retry_after_ms=500,
    )


def rewound(log: Log) -> AccessNotRecorded:
    """The access log lost what it held."""
    return AccessNotRecorded(
        f"It has to be recorded in the access log first, and {log.origin} is shorter than, or "
        "differs from, what was recorded before: an operator must pin a checkpoint of it."
    )
