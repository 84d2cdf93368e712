"""The access logs of all tenants: who was refused, who read what (contract, section 10).

What is recorded here is durable before the caller is told anything. Refusals come at most at a
rate; beyond it they are counted, and the count is an entry too. Reads are never only counted: past
their rate they are refused.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, time_ns
from typing import Final

import structlog

from ledger.access_appending import AccessAppender, AccessNotRecorded
from ledger.access_settings import AccessSettings
from ledger.access_writer import AccessWriter
from ledger.batch import random_request_id
from ledger.core.access import Access, Recorded, suppressed
from ledger.core.ids import Tenant
from ledger.core.log import Log
from ledger.ledger_time import LedgerTime
from ledger.store.interface import Store
from ledger.threads import Threads

REMEMBERED_MAX: Final = 16_384
"""Refused requests that are known to be recorded, so that repeating them costs the store nothing.
One takes about 0.3 KiB."""
_MINUTE_S: Final = 60.0

_log: Final = structlog.get_logger("ledger.access")


@dataclass(slots=True)
class _Bucket:
    left: float
    at_s: float

    def take(self, now_s: float, *, per_minute: int) -> bool:
        """Whether one more is within the rate."""
        earned = (now_s - self.at_s) * per_minute / _MINUTE_S
        self.left, self.at_s = min(float(per_minute), self.left + earned), now_s
        if self.left < 1:
            return False
        self.left -= 1
        return True


@dataclass(slots=True)
class _Counted:
    since_us: int
    count: int = 0


@dataclass(slots=True)
class _Room:
    """One access log as this process writes it. Principals are those of credentials: not many."""

    log: Log
    time: LedgerTime
    writer: AccessWriter
    refusals: dict[str, _Bucket] = field(default_factory=dict)
    reads: dict[str, _Bucket] = field(default_factory=dict)
    counted: dict[str, _Counted] = field(default_factory=dict)


class AccessLogs:
    """Belongs to one event loop."""

    def __init__(
        self,
        store: Store,
        log_of: Callable[[Tenant], Log],
        threads: Threads,
        settings: AccessSettings,
        *,
        new_time: Callable[[], LedgerTime] = LedgerTime,
        on_commit: Callable[[], None],
        on_fatal: Callable[[BaseException], None],
        now_s: Callable[[], float] = monotonic,
    ) -> None:
        """`log_of` finds a tenant's access log and may block; `now_s` is a monotonic clock."""
        self._store = store
        self._log_of = log_of
        self._threads = threads
        self._settings = settings
        self._new_time = new_time
        self._on_commit = on_commit
        self._on_fatal = on_fatal
        self._now_s = now_s
        self._rooms: dict[Tenant, _Room] = {}
        self._known: OrderedDict[tuple[int, str, str], None] = OrderedDict()

    async def log(self, tenant: Tenant) -> Log:
        """The tenant's access log, begun. Raises `UnknownTenant` and what the store raises."""
        return (await self._room(tenant)).log

    async def record(self, tenant: Tenant, accesses: Sequence[Access]) -> list[int]:
        """Records acts of an administrator, or reads; answers their indexes once they are durable.

        Raises `AccessNotRecorded`, `UnknownTenant` and what the store raises; then nothing may be
        done or handed out on the strength of it. Being cancelled tears no commit.
        """
        room = await self._room(tenant)
        return await asyncio.shield(room.writer.enqueue(accesses))

    async def record_read(self, tenant: Tenant, access: Access) -> Recorded:
        """`record` of one read, within the rate of its principal."""
        room = await self._room(tenant)
        per_minute = self._settings.reads_per_minute_max
        if not self._take(room.reads, access.actor.id, per_minute):
            raise AccessNotRecorded(
                f"Each read is recorded, and this principal's come faster than the {per_minute:,} "
                "a minute that are.",
                retry_after_ms=max(1, round(_MINUTE_S * 1_000 / per_minute)),
                too_fast=True,
            )
        (index,) = await asyncio.shield(room.writer.enqueue([access]))
        return Recorded(index)

    async def record_refusals(self, tenant: Tenant, accesses: Sequence[Access]) -> None:
        """Returns once each refusal is recorded, was recorded before, or is counted because its
        principal's come too fast. Raises as `record` does."""
        room = await self._room(tenant)
        per_minute = self._settings.refusals_per_minute_max
        wanted: list[Access] = []
        for access in accesses:
            if (room.log.number, *access.at) in self._known:
                continue
            if self._take(room.refusals, access.actor.id, per_minute):
                wanted.append(access)
            else:
                self._count(room, access.actor.id)
        if not wanted:
            return
        await self._record_with_counts(room, wanted)
        for access in wanted:
            self._known[(room.log.number, *access.at)] = None
        while len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)

    async def write_counts(self) -> None:
        """Records what was only counted so far. What cannot be recorded now stays counted."""
        for room in self._rooms.values():
            if not room.counted:
                continue
            try:
                await self._record_with_counts(room, [])
            except AccessNotRecorded as why:
                _log.warning("suppressed refusals not recorded yet", why=str(why))

    async def run(self) -> None:
        """Writes counts now and then, until cancelled."""
        while True:
            await asyncio.sleep(self._settings.suppressed_ms / 1_000)
            await self.write_counts()

    def close_log(self, log: Log) -> None:
        """The access log was rewound: from now on nothing is recorded in it."""
        self._room_of(log).writer.close()

    async def drain(self, timeout_s: float) -> bool:
        """Records what was counted and what waits, and takes nothing more. False if it did not end
        in time."""
        await self.write_counts()
        for room in self._rooms.values():
            room.writer.drain()
        waits = [partial(room.writer.join, timeout_s) for room in self._rooms.values()]
        return all([await asyncio.to_thread(wait) for wait in waits])

    async def _record_with_counts(self, room: _Room, wanted: Sequence[Access]) -> None:
        """The counts go first: they are of refusals before these. Put back where it fails."""
        counted, room.counted = room.counted, {}
        notes = [
            suppressed(
                principal=principal,
                count=one.count,
                since_us=one.since_us,
                request_id=random_request_id(),
            )
            for principal, one in counted.items()
        ]
        try:
            await asyncio.shield(room.writer.enqueue([*notes, *wanted]))
        except AccessNotRecorded:
            for principal, one in counted.items():
                later = room.counted.get(principal)
                room.counted[principal] = one
                one.count += later.count if later is not None else 0
            raise

    def _take(self, buckets: dict[str, _Bucket], principal: str, per_minute: int) -> bool:
        now_s = self._now_s()
        bucket = buckets.get(principal)
        if bucket is None:
            bucket = buckets[principal] = _Bucket(float(per_minute), now_s)
        return bucket.take(now_s, per_minute=per_minute)

    def _count(self, room: _Room, principal: str) -> None:
        counted = room.counted.get(principal)
        if counted is None:
            now_us = room.time.shown_us(head_us=0, host_us=time_ns() // 1_000)
            counted = room.counted[principal] = _Counted(now_us)
        counted.count += 1

    async def _room(self, tenant: Tenant) -> _Room:
        room = self._rooms.get(tenant)
        if room is None:
            room = self._room_of(await self._threads.run(partial(self._log_of, tenant)))
        return room

    def _room_of(self, log: Log) -> _Room:
        room = self._rooms.get(log.tenant)
        if room is None:
            time = self._new_time()
            writer = AccessWriter(
                AccessAppender(self._store, log, time),
                queued_max=self._settings.queued_max,
                on_commit=self._on_commit,
                on_fatal=self._on_fatal,
            )
            room = self._rooms[log.tenant] = _Room(log, time, writer)
        return room
