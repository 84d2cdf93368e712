"""The event sourcing library's recorders, over a store and one of its logs.

How the library's words map (formats, section 1): originator_id is origin + "#" + run id, topic the
event type, `run.version` counts from the library's first version, and a notification id is an index
plus one, so ids have no gaps. `state` are the event's bytes, spliced into the entry and cut out of
it again. Events are chained here by the same function that the sequencer uses, under the same lock;
what belongs to runs, steps and keys is not written, so this is no way round the sequencer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, Self
from uuid import UUID

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    IntegrityError,
    ListenNotifySubscription,
    Notification,
    OperationalError,
    ProgrammingError,
    StoredEvent,
    Subscription,
)

from ledger.core.chain import Chained, ChainEvent, chain
from ledger.core.entry import event_span
from ledger.core.ids import Origin, RunId
from ledger.core.merkle import Frontier
from ledger.store.errors import DuplicateRow, NotDurable, StoreUnavailable
from ledger.store.interface import Appending, Reading, Store, StoredHead
from ledger.store.tables import ENTRIES, TILES, Row, Value
from ledger.store.tree import read_open_tiles

_PAGE_MAX: Final = 1_000


class _EntryRow(NamedTuple):
    """A row of the table of entries."""

    log: int
    idx: int
    run: str
    version: int
    type: str
    entry: bytes
    leaf: bytes


class LogAggregateRecorder(AggregateRecorder):
    """Records and selects the events of single runs.

    `initial_version` is the library's number of a run's first event, 1 unless its user counts from
    0. A run's versions have no gaps: an event that leaves one out is refused as a conflict. Raises
    the library's `IntegrityError` for a conflict, its `OperationalError` where nothing was written
    and a repeat may succeed, and `CommitUnknown` as it is: a repeat might record twice.
    """

    def __init__(self, store: Store, log: int, *, initial_version: int = 1) -> None:
        self._store = store
        self._log = log
        self._initial_version = initial_version

    def insert_events(
        self, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        """Chains and appends all of them, durably, or none."""
        self._append(stored_events)
        return None

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Events of one run, by version, in one snapshot."""
        with _in_the_librarys_words(), self._store.read() as reading:
            origin = reading.head(self._log).origin
            rows = _pages(
                reading,
                equal={"log": self._log, "run": _run_of(originator_id, origin)},
                by="version",
                first=0 if gt is None else gt - self._initial_version + 1,
                last=None if lte is None else lte - self._initial_version,
                descending=desc,
                size_max=_PAGE_MAX if limit is None else limit,
            )
            return [self._stored(row, origin) for row in islice(rows, limit)]

    def _append(self, stored_events: Sequence[StoredEvent]) -> list[int]:
        if not stored_events:
            return []
        with _in_the_librarys_words(), self._store.append(self._log) as appending:
            head = appending.locked_head
            now_us = max(appending.locked_clock_us, head.time_us)
            events = [self._chain_event(stored, head.origin) for stored in stored_events]
            chained = chain(
                events,
                origin=Origin(head.origin),
                frontier=Frontier.from_bytes(head.frontier),
                recorded_at_us=now_us,
                heads=self._heads(appending, events),
                open_tiles=read_open_tiles(
                    appending, log=self._log, size=head.size, added=len(events)
                ),
            )
            appending.insert(ENTRIES, self._rows(head, events, chained))
            appending.upsert(
                TILES,
                [(self._log, it.id.level, it.id.index, it.hashes) for it in chained.growth.tiles],
            )
            appending.set_head(
                size=chained.frontier.size, frontier=chained.frontier.to_bytes(), time_us=now_us
            )
        return list(range(head.size + 1, chained.frontier.size + 1))

    def _chain_event(self, stored: StoredEvent, origin: str) -> ChainEvent:
        version = stored.originator_version - self._initial_version
        if version < 0:
            raise IntegrityError(f"a run's first version is {self._initial_version}")
        run_id = RunId(_run_of(stored.originator_id, origin))
        return ChainEvent(run_id, version, stored.topic, stored.state)

    def _heads(self, appending: Appending, events: Sequence[ChainEvent]) -> dict[RunId, bytes]:
        """The leaf hash that the first event of each run will name as its `prev`."""
        firsts = _first_versions(events)
        before = [(self._log, run_id, first - 1) for run_id, first in firsts.items() if first]
        found = appending.get_by(ENTRIES, ("log", "run", "version"), before)
        if len(found) != len(before):
            raise IntegrityError("an event's version leaves a gap in its run")
        return {RunId(row.run): row.leaf for row in map(_entry_row, found)}

    def _rows(self, head: StoredHead, events: Sequence[ChainEvent], chained: Chained) -> list[Row]:
        placed = zip(events, chained.entries, chained.leaves, strict=True)
        return [
            _EntryRow(self._log, index, event.run_id, event.version, event.type, entry, leaf)
            for index, (event, entry, leaf) in enumerate(placed, start=head.size)
        ]

    def _stored(self, row: _EntryRow, origin: str) -> StoredEvent:
        return StoredEvent(
            originator_id=f"{origin}#{row.run}",
            originator_version=row.version + self._initial_version,
            topic=row.type,
            state=event_span(row.entry),
        )


class LogRecorder(LogAggregateRecorder, ApplicationRecorder):
    """Records events and lists those of the whole log in its order."""

    @property
    def store(self) -> Store:
        """Where it records."""
        return self._store

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int]:
        """Chains and appends all of them, durably, or none; answers their notification ids."""
        return self._append(stored_events)

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """At most `limit` events from `start` to `stop`, in one snapshot. With `topics` the log is
        read on until enough of them were found."""
        first = 1 if start is None else start + (not inclusive_of_start)
        with _in_the_librarys_words(), self._store.read() as reading:
            origin = reading.head(self._log).origin
            rows = _pages(
                reading,
                equal={"log": self._log},
                by="idx",
                first=first - 1,
                last=None if stop is None else stop - 1,
                size_max=_PAGE_MAX if topics else limit,
            )
            wanted = (row for row in rows if not topics or row.type in topics)
            return [self._notification(row, origin) for row in islice(wanted, limit)]

    def max_notification_id(self) -> int | None:
        """The log's size; None while it is empty."""
        with _in_the_librarys_words(), self._store.read() as reading:
            return reading.head(self._log).size or None

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> Subscription[ApplicationRecorder]:
        """Events after `gt`, and those to come, woken by the store's watch."""
        return LogSubscription(self, gt, topics)

    def _notification(self, row: _EntryRow, origin: str) -> Notification:
        stored = self._stored(row, origin)
        return Notification(
            originator_id=stored.originator_id,
            originator_version=stored.originator_version,
            topic=stored.topic,
            state=stored.state,
            id=row.idx + 1,
        )


class LogSubscription(ListenNotifySubscription[LogRecorder]):
    """Follows a log; the library's own loop reads, the store's watch wakes it."""

    def __enter__(self) -> Self:
        super().__enter__()
        self._watching = ExitStack()
        self._watching.enter_context(self._recorder.store.watch(self._has_been_notified.set))
        return self

    def __exit__(self, *args: object, **kwargs: Any) -> None:
        self._watching.close()
        super().__exit__(*args, **kwargs)


@contextmanager
def _in_the_librarys_words() -> Iterator[None]:
    try:
        yield
    except DuplicateRow as conflict:
        raise IntegrityError(str(conflict)) from conflict
    except (StoreUnavailable, NotDurable) as trouble:
        raise OperationalError(str(trouble)) from trouble


def _entry_row(row: Row) -> _EntryRow:
    return _EntryRow(*row)  # type: ignore[arg-type]


def _run_of(originator_id: UUID | str, origin: str) -> str:
    """The run id in an originator id. Raises the library's `ProgrammingError` for another log's."""
    named, _, run = str(originator_id).partition("#")
    if named != origin or not run:
        raise ProgrammingError("an originator id is the log's origin, # and a run id")
    return run


def _first_versions(events: Sequence[ChainEvent]) -> dict[RunId, int]:
    """The version of the first event of each run, after checking that the others follow on it."""
    firsts: dict[RunId, int] = {}
    newest: dict[RunId, int] = {}
    for event in events:
        if event.version != newest.get(event.run_id, event.version - 1) + 1:
            raise IntegrityError("an event's version does not follow the one before it")
        firsts.setdefault(event.run_id, event.version)
        newest[event.run_id] = event.version
    return firsts


def _pages(
    reading: Reading,
    *,
    equal: Mapping[str, Value],
    by: Literal["idx", "version"],
    first: int,
    last: int | None,
    descending: bool = False,
    size_max: int = _PAGE_MAX,
) -> Iterator[_EntryRow]:
    """Entries with `by` from `first` to `last`, both included, read page by page as asked for."""
    size = min(size_max, _PAGE_MAX)
    after: Row | None = (last + 1,) if descending and last is not None else None
    while True:
        rows = reading.page(
            ENTRIES,
            equal=equal,
            order=(by,),
            after=after,
            greater={by: first - 1},
            descending=descending,
            limit=size,
        )
        for row in map(_entry_row, rows):
            if last is not None and getattr(row, by) > last:
                return
            yield row
        if len(rows) < size or not rows:
            return
        after = (rows[-1][ENTRIES.names.index(by)],)
