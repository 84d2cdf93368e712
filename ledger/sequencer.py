"""The only writer: takes commands, decides them in batches, appends, answers (house, section 2).

One thread a log. While it waits for the store's fsync, further commands queue: the fsync is the
batching window, there is no timer. Every replica may append; the head row orders them.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic_ns, sleep
from typing import Final

from ledger.batch import EVENTS_MAX, Batch, Result
from ledger.committed import Memory, known_leaf
from ledger.core.answers import Answered, LeaseGranted
from ledger.core.commands import (
    Caller,
    PlanSteps,
    RenewLease,
    Request,
    reports_started_work,
)
from ledger.core.ids import Tenant
from ledger.core.log import Log
from ledger.core.policy import Policies
from ledger.core.refusals import Refused
from ledger.core.value import value
from ledger.failures import Failure, FailureKind
from ledger.ledger_time import LedgerTime
from ledger.renewal import renew
from ledger.store.errors import CommitUnknown, DuplicateRow, StoreError, StoreUnavailable
from ledger.store.inline import Projections
from ledger.store.interface import Appending, Store
from ledger.tenants import Tenants
from ledger.vault import Prepared, Vault

RETRIES_MAX: Final = 3
_RETRY_PAUSE_S: Final = 0.02
_DISTRUSTED_NS: Final = 3_000_000_000
_STORE_FAILED: Final = frozenset({FailureKind.STORE_UNAVAILABLE, FailureKind.MAYBE_COMMITTED})

Outcome = Answered | Failure


@value()
class SequencerSettings:
    """How much may wait. `reserved_*` is room that only reports of started work may use, so that
    what a runtime did can be recorded while starts are already turned away."""

    queued_max: int = 20_000
    queued_bytes_max: int = 64 << 20
    reserved: int = 4_000
    reserved_bytes: int = 16 << 20
    policies: Policies = field(default_factory=Policies)


@dataclass(slots=True)
class _Envelope:
    """The commands of one message: answered together, when the last one is."""

    requests: Sequence[Request]
    done: asyncio.Future[list[Outcome]]
    loop: asyncio.AbstractEventLoop
    outcomes: list[Outcome | None] = field(default_factory=list)
    missing: int = 0


@value()
class _Pending:
    envelope: _Envelope
    at: int

    @property
    def request(self) -> Request:
        """The command that waits."""
        return self.envelope.requests[self.at]


class LogSequencer:
    """The queue and the writing thread of one log."""

    def __init__(
        self,
        store: Store,
        log: Log,
        vault: Vault,
        projections: Projections,
        time: LedgerTime,
        settings: SequencerSettings,
        on_commit: Callable[[Log, int], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.log = log
        self._store = store
        self._vault = vault
        self._projections = projections
        self._time = time
        self._settings = settings
        self._on_commit = on_commit
        self._on_fatal = on_fatal
        self._memory = Memory()
        self._waiting: deque[_Pending] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._draining = False
        self._broken: FailureKind | None = None
        self._failed_ns: int | None = None
        self._acknowledged_size = -1
        self._acknowledged_leaf = b""
        self._thread = threading.Thread(
            target=self._work, name=f"sequencer-{log.number}", daemon=True
        )
        self._thread.start()

    # Called on the event loop

    def enqueue(self, requests: Sequence[Request]) -> asyncio.Future[list[Outcome]]:
        """Takes the commands of one message, or answers at once why not."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Outcome]] = loop.create_future()
        size_bytes = sum(request.size_bytes for request in requests)
        reports = all(reports_started_work(request.command) for request in requests)
        with self._changed:
            refused = self._refusal(len(requests), size_bytes, reports=reports)
            if refused is not None:
                done.set_result([refused] * len(requests))
                return done
            envelope = _Envelope(requests, done, loop, [None] * len(requests), len(requests))
            self._waiting.extend(_Pending(envelope, at) for at in range(len(requests)))
            self._waiting_bytes += size_bytes
            self._changed.notify()
        return done

    def _refusal(self, count: int, size_bytes: int, *, reports: bool) -> Failure | None:
        if self._broken is not None:
            return Failure(self._broken)
        if self._draining and not reports:
            return Failure(FailureKind.DRAINING)
        settings = self._settings
        room = settings.queued_max + (settings.reserved if reports else 0)
        room_bytes = settings.queued_bytes_max + (settings.reserved_bytes if reports else 0)
        full = len(self._waiting) + count > room or self._waiting_bytes + size_bytes > room_bytes
        # A message larger than the whole room is taken when nothing waits: it could never go else.
        if full and self._waiting:
            return Failure(FailureKind.OVERLOADED, retry_after_ms=250)
        return None

    def close(self, kind: FailureKind) -> None:
        """Appends nothing any more, not even what waits: all of it is answered with that
        failure."""
        with self._changed:
            self._broken = kind

    def drain(self) -> None:
        """Takes nothing new but reports of started work; what waits is still done."""
        with self._changed:
            self._draining = True
            self._changed.notify()

    def join(self, timeout_s: float) -> bool:
        """After `drain`: waits until nothing waits and the thread ended. False on time-out."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def broken(self) -> FailureKind | None:
        """Why this log takes no appends, None while it does."""
        return self._broken

    def check(self) -> None:
        """Where the last append failed: raises a `StoreError` for a while, and then as long as the
        head's row cannot be written as it is. A full disk still answers every reader, and may have
        room for a little."""
        failed_ns = self._failed_ns
        if failed_ns is None:
            return
        if monotonic_ns() - failed_ns < _DISTRUSTED_NS:
            raise StoreUnavailable("the last append failed")
        with self._store.append(self.log.number) as appending:
            _write_head_anew(appending)
        if self._failed_ns == failed_ns:
            self._failed_ns = None

    # The writing thread

    def _work(self) -> None:
        try:
            while (batch := self._take()) is not None:
                self._do(batch)
        except BaseException as fault:
            # Our own mistake, or the interpreter's end: nothing decided from here can be trusted.
            self._broken = FailureKind.STORE_UNAVAILABLE
            self._on_fatal(fault)
            raise
        finally:
            self._answer_rest()

    def _take(self) -> list[_Pending] | None:
        with self._changed:
            while not self._waiting:
                if self._draining:
                    return None
                self._changed.wait()
            batch: list[_Pending] = []
            events = 0
            while self._waiting:
                request = self._waiting[0].request
                plan = request.command
                count = len(plan.steps) + 1 if isinstance(plan, PlanSteps) else 2
                if batch and events + count > EVENTS_MAX:
                    break
                batch.append(self._waiting.popleft())
                self._waiting_bytes -= request.size_bytes
                events += count
            return batch

    def _answer_rest(self) -> None:
        with self._changed:
            rest = list(self._waiting)
            self._waiting.clear()
        self._answer([(pending, Failure(FailureKind.STORE_UNAVAILABLE)) for pending in rest])

    def _do(self, batch: list[_Pending]) -> None:
        closed = self._broken
        if closed is not None:
            self._answer([(pending, Failure(closed)) for pending in batch])
            return
        now_ns = monotonic_ns()
        late = [
            p
            for p in batch
            if p.request.deadline_ns is not None and p.request.deadline_ns <= now_ns
        ]
        if late:
            self._answer([(p, Failure(FailureKind.DEADLINE_PASSED)) for p in late])
            gone = {id(pending) for pending in late}
            batch = [pending for pending in batch if id(pending) not in gone]
        if not batch:
            return
        try:
            outcomes = self._append([pending.request for pending in batch])
        except BaseException:
            # Nobody waits for ever, whatever ends this thread: the same ids may be sent again.
            self._answer([(pending, Failure(FailureKind.MAYBE_COMMITTED)) for pending in batch])
            raise
        if any(isinstance(each, Failure) and each.kind in _STORE_FAILED for each in outcomes):
            self._failed_ns = monotonic_ns()
        decided = len(outcomes)
        self._put_back(batch[decided:])
        self._answer(list(zip(batch[:decided], outcomes, strict=True)))

    def _put_back(self, undecided: list[_Pending]) -> None:
        """What the batch had no room for comes first in the next one."""
        if not undecided:
            return
        with self._changed:
            self._waiting.extendleft(reversed(undecided))
            self._waiting_bytes += sum(pending.request.size_bytes for pending in undecided)

    def _append(self, requests: list[Request]) -> list[Outcome]:
        """Appends a batch, as many of its first commands as it has room for: that many outcomes.
        Tried again only where it is certain that nothing happened."""
        for attempt in range(RETRIES_MAX):
            if attempt:
                sleep(_RETRY_PAUSE_S * attempt)
            try:
                return self._try(requests)
            except (StoreUnavailable, DuplicateRow):
                self._memory.forget()
        return [Failure(FailureKind.STORE_UNAVAILABLE, retry_after_ms=500)] * len(requests)

    def _try(self, requests: list[Request]) -> list[Outcome]:
        prepared = self._vault.prepare(self._store, self.log, requests)
        result: Result | None = None
        try:
            with self._store.append(self.log.number) as appending:
                head = appending.locked_head
                if self._is_rewound(appending):
                    self._broken = FailureKind.HISTORY_REWOUND
                    return [Failure(FailureKind.HISTORY_REWOUND)] * len(requests)
                now_us = self._time.now_us(head_us=head.time_us, clock_us=appending.locked_clock_us)
                batch = Batch(
                    appending,
                    self.log,
                    self._vault,
                    self._projections,
                    self._memory,
                    now_us=now_us,
                    policy=self._settings.policies.of(self.log.tenant),
                )
                result = batch.run_all(prepared)
        except CommitUnknown:
            return self._after_unclear_commit(requests, prepared, result)
        except BaseException:
            self._memory.forget()
            raise
        self._committed(result)
        return list(result.answers)

    def _is_rewound(self, appending: Appending) -> bool:
        """Whether the log is shorter than, or differs at, what this process acknowledged."""
        head = appending.locked_head
        if self._acknowledged_size <= 0 or head.frontier == self._memory.frontier:
            return False
        if head.size < self._acknowledged_size:
            return True
        leaf = known_leaf(appending, self.log, self._acknowledged_size - 1)
        return leaf != self._acknowledged_leaf

    def _committed(self, result: Result) -> None:
        if result.appended:
            self._failed_ns = None
            self._acknowledged_size = result.size
            self._acknowledged_leaf = result.last_leaf
            self._on_commit(self.log, result.size)

    def _after_unclear_commit(
        self, requests: list[Request], prepared: list[Prepared], result: Result | None
    ) -> list[Outcome]:
        """An error from COMMIT means unknown, never no: look on a new connection, holding the head.

        Whoever holds the head's lock knows that the unclear transaction is over. That it is not
        there is said only once a later transaction is durable: bytes whose fsync failed may stand
        in a log file, for the next recovery to find, until something is written over them.
        """
        self._memory.forget()
        if result is None or not result.appended:
            return [Failure(FailureKind.STORE_UNAVAILABLE)] * len(requests)
        for attempt in range(RETRIES_MAX):
            if attempt:
                sleep(_RETRY_PAUSE_S * attempt)
            try:
                with self._store.append(self.log.number) as appending:
                    leaf = known_leaf(appending, self.log, result.size - 1)
                    committed = leaf == result.last_leaf
                    if not committed:
                        _write_head_anew(appending)
            except StoreError:
                continue
            if committed:
                self._committed(result)
                return list(result.answers)
            return [Failure(FailureKind.STORE_UNAVAILABLE)] * len(requests)
        return [Failure(FailureKind.MAYBE_COMMITTED)] * len(requests)

    def _answer(self, outcomes: Sequence[tuple[_Pending, Outcome]]) -> None:
        """Answers with one wake-up of each event loop."""
        complete: dict[asyncio.AbstractEventLoop, list[_Envelope]] = {}
        for pending, outcome in outcomes:
            envelope = pending.envelope
            envelope.outcomes[pending.at] = outcome
            envelope.missing -= 1
            if envelope.missing == 0:
                complete.setdefault(envelope.loop, []).append(envelope)
        for loop, envelopes in complete.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, envelopes)


def _write_head_anew(appending: Appending) -> None:
    head = appending.locked_head
    appending.set_head(size=head.size, frontier=head.frontier, time_us=head.time_us)


def _resolve(envelopes: list[_Envelope]) -> None:
    for envelope in envelopes:
        if not envelope.done.done():
            envelope.done.set_result([o for o in envelope.outcomes if o is not None])


class Sequencer:
    """The writers of every log of this server."""

    def __init__(
        self,
        store: Store,
        tenants: Tenants,
        vault: Vault,
        projections: Projections,
        settings: SequencerSettings,
        *,
        new_time: Callable[[], LedgerTime] = LedgerTime,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._store = store
        self._tenants = tenants
        self._vault = vault
        self._projections = projections
        self._settings = settings
        self._new_time = new_time
        self._on_fatal = on_fatal
        self._writers: dict[Tenant, LogSequencer] = {}
        self._times: dict[Tenant, LedgerTime] = {}
        self._watchers: list[Callable[[Log, int], None]] = []
        self._renewing = ThreadPoolExecutor(max_workers=4, thread_name_prefix="renewals")

    def watch(self, appended: Callable[[Log, int], None]) -> None:
        """Calls `appended(log, size)` from the writing thread after each commit of this process."""
        self._watchers.append(appended)

    async def submit(self, requests: Sequence[Request]) -> list[Outcome]:
        """Applies commands of one tenant in order, each atomic with its own answer.

        A cancelled caller does not tear a commit: what was queued is still decided, and the same
        request sent again gets the first answer.
        """
        if not requests:
            return []
        writer = self._writer(requests[0].caller.tenant)
        return await asyncio.shield(writer.enqueue(requests))

    async def renew(self, caller: Caller, command: RenewLease) -> LeaseGranted | Refused | Failure:
        """Extends a live lease: durable when answered, no entry, no head lock."""
        log = self._tenants.log(caller.tenant)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._renewing, renew, self._store, log, self.time(caller.tenant), command
        )

    def time(self, tenant: Tenant) -> LedgerTime:
        """The ledger time of a tenant's log."""
        if tenant not in self._times:
            self._times[tenant] = self._new_time()
        return self._times[tenant]

    def broken(self) -> dict[Tenant, FailureKind]:
        """The logs that take no appends, and why."""
        return {t: w.broken for t, w in self._writers.items() if w.broken is not None}

    def close_log(self, tenant: Tenant, kind: FailureKind) -> None:
        """From now on nothing is appended to the tenant's log, whoever asks, the sweep included."""
        self._writer(tenant).close(kind)

    def check(self) -> None:
        """Raises a `StoreError` where a log could not be appended to and still cannot be."""
        for writer in list(self._writers.values()):
            writer.check()

    def drain(self, timeout_s: float) -> bool:
        """Takes nothing new, finishes what waits. False if it did not end in time."""
        for writer in self._writers.values():
            writer.drain()
        ended = [writer.join(timeout_s) for writer in self._writers.values()]
        self._renewing.shutdown(wait=True)
        return all(ended)

    def _writer(self, tenant: Tenant) -> LogSequencer:
        writer = self._writers.get(tenant)
        if writer is None:
            writer = self._writers[tenant] = LogSequencer(
                self._store,
                self._tenants.log(tenant),
                self._vault,
                self._projections,
                self.time(tenant),
                self._settings,
                self._committed,
                self._on_fatal,
            )
        return writer

    def _committed(self, log: Log, size: int) -> None:
        for appended in self._watchers:
            appended(log, size)
