"""The event sourcing library's published test cases, on the recorders over each store.

They number a run's events from `INITIAL_VERSION` but use 0 here and there, so the recorders are
told to count from 0, as they may be."""

from __future__ import annotations

from typing import Any, ClassVar
from unittest import TestCase
from unittest.result import TestResult as CaseResult
from uuid import UUID, uuid4

import pytest
from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    IntegrityError,
    OperationalError,
    ProgrammingError,
    StoredEvent,
)
from eventsourcing.tests.persistence import (
    AggregateRecorderTestCase,
    ApplicationRecorderTestCase,
    NonInterleavingNotificationIDsBaseCase,
)

from ledger.core.canonical import JsonObject
from ledger.core.entry import encode_event, read_entry
from ledger.core.ids import Origin
from ledger.core.merkle import Frontier, leaf_hash
from ledger.core.tiles import TILE_WIDTH
from ledger.store.errors import CommitUnknown
from ledger.store.interface import Store
from ledger.store.recorder import LogAggregateRecorder, LogRecorder
from ledger.store.settings import StoreSettings
from ledger.store.tables import ENTRIES, TILES
from tests.support.rows import LOG, ORIGIN, make_head, size
from tests.support.stores import OpenAgain


class _OnALog(TestCase):
    """What the three cases share: ids of this log, and a recorder on the store under test."""

    __test__ = False  # collected below, by name
    INITIAL_VERSION = 0
    store: ClassVar[Store]

    def new_originator_id(self) -> UUID | str:
        return f"{ORIGIN}#{uuid4()}"

    def create_recorder(self) -> Any:
        return LogRecorder(self.store, LOG, initial_version=0)


class AggregateCase(_OnALog, AggregateRecorderTestCase):
    def create_recorder(self) -> AggregateRecorder:
        return LogAggregateRecorder(self.store, LOG, initial_version=0)


class ApplicationCase(_OnALog, ApplicationRecorderTestCase[ApplicationRecorder]):
    pass


class NonInterleavingCase(_OnALog, NonInterleavingNotificationIDsBaseCase):
    pass


# Each runs with a fresh store of each kind.
CASES = [
    (case, name)
    for case in (AggregateCase, ApplicationCase, NonInterleavingCase)
    for name in sorted(dir(case))
    if name.startswith(("test", "optional_test"))
]
del AggregateRecorderTestCase, ApplicationRecorderTestCase, NonInterleavingNotificationIDsBaseCase


@pytest.fixture(autouse=True)
def _a_log(store: Store) -> None:
    make_head(store)


@pytest.mark.parametrize(("case", "name"), CASES, ids=lambda it: getattr(it, "__name__", it))
def test_the_librarys_published_case_passes(store: Store, case: type[_OnALog], name: str) -> None:
    case.store = store
    result = CaseResult()
    case(name).run(result)
    assert result.testsRun == 1
    assert not result.skipped
    assert [text for _, text in (*result.failures, *result.errors)] == []
    _verify_log(store)


def _event(number: int) -> bytes:
    event: JsonObject = {
        "actor": {"auth": "internal", "id": "_ledger", "kind": "system", "role": "admin"},
        "body": {"number": number},
        "payloads": [],
        "request": {
            "digest": "0" * 64,
            "id": f"{number:08x}-0000-4000-8000-000000000000",
            "part": 0,
        },
        "type": "test.happened",
    }
    return encode_event(event)


def _stored(number: int, *, run: str = "r", version: int) -> StoredEvent:
    return StoredEvent(
        originator_id=f"{ORIGIN}#{run}",
        originator_version=version,
        topic="test.happened",
        state=_event(number),
    )


def _verify_log(store: Store) -> None:
    """Hashes everything again: leaves, tree, stored tiles, and each run's chain."""
    with store.read() as reading:
        head = reading.head(LOG)
        rows = reading.page(ENTRIES, equal={"log": LOG}, order=["idx"], limit=100_000)
        tiles = reading.page(TILES, equal={"log": LOG, "level": 0}, order=["idx"], limit=1_000)
    leaves = [leaf_hash(row[5]) for row in rows]  # type: ignore[arg-type]
    assert [row[6] for row in rows] == leaves
    assert Frontier().extend(leaves).to_bytes() == head.frontier
    whole = [
        b"".join(leaves[first : first + TILE_WIDTH])
        for first in range(0, head.size - TILE_WIDTH + 1, TILE_WIDTH)
    ]
    assert [row[3] for row in tiles] == whole


def test_what_is_recorded_is_an_entry_of_the_log(store: Store) -> None:
    recorder = LogRecorder(store, LOG)
    assert recorder.insert_events([_stored(0, version=1), _stored(1, version=2)]) == [1, 2]
    assert recorder.insert_events([_stored(2, run="s", version=1), _stored(3, version=3)]) == [3, 4]
    with store.read() as reading:
        rows = reading.page(ENTRIES, equal={"log": LOG}, order=["idx"], limit=9)
    entries = [
        read_entry(row[5], origin=Origin(ORIGIN), index=index)  # type: ignore[arg-type]
        for index, row in enumerate(rows)
    ]
    assert [(it.run_id, it.version) for it in entries] == [("r", 0), ("r", 1), ("s", 0), ("r", 2)]
    assert [it.prev for it in entries] == [None, entries[0].leaf_hash, None, entries[1].leaf_hash]
    assert [it.event_bytes for it in entries] == [_event(number) for number in range(4)]
    assert recorder.select_events(f"{ORIGIN}#r", gt=1, lte=2) == [_stored(1, version=2)]
    _verify_log(store)


def test_the_tree_grows_through_full_tiles(store: Store) -> None:
    recorder = LogRecorder(store, LOG)
    for first in (0, 100, 250, 256, 700, 1_279):
        last = {0: 100, 100: 250, 250: 256, 256: 700, 700: 1_279, 1_279: 1_280}[first]
        events = [_stored(number, version=number + 1) for number in range(first, last)]
        recorder.insert_events(events)
        _verify_log(store)
    assert recorder.max_notification_id() == 1_280


def test_topics_are_found_however_far_apart_they_are(store: Store) -> None:
    recorder = LogRecorder(store, LOG)
    rare = StoredEvent(f"{ORIGIN}#rare", 1, "test.rare", _event(1))
    frequent = [_stored(number, version=number) for number in range(1, 2_501)]
    recorder.insert_events([*frequent, rare])
    (found,) = recorder.select_notifications(1, 5, topics=["test.rare"])
    assert (found.id, found.state) == (2_501, rare.state)
    assert recorder.select_notifications(1, 5, stop=2_500, topics=["test.rare"]) == []
    assert len(recorder.select_notifications(1, 2_400)) == 2_400
    assert len(recorder.select_events(f"{ORIGIN}#r")) == 2_500
    assert [it.originator_version for it in recorder.select_events(f"{ORIGIN}#r", desc=True)] == (
        list(range(2_500, 0, -1))
    )


@pytest.mark.parametrize("versions", [[2], [1, 3], [1, 1], [2, 1], [0]], ids=str)
def test_versions_that_do_not_follow_are_a_conflict(store: Store, versions: list[int]) -> None:
    recorder = LogRecorder(store, LOG)
    with pytest.raises(IntegrityError):
        recorder.insert_events([_stored(n, version=version) for n, version in enumerate(versions)])
    assert size(store) == 0


def test_another_logs_ids_are_refused(store: Store) -> None:
    recorder = LogRecorder(store, LOG)
    for originator_id in (f"{ORIGIN}/other#r", ORIGIN, f"{ORIGIN}#", uuid4()):
        with pytest.raises(ProgrammingError):
            recorder.select_events(originator_id)
        with pytest.raises(ProgrammingError):
            recorder.insert_events([StoredEvent(originator_id, 1, "test.happened", _event(1))])
    assert size(store) == 0


def test_trouble_of_the_store_comes_in_the_librarys_words(
    store: Store, open_again: OpenAgain
) -> None:
    hasty = LogRecorder(open_again(StoreSettings(lock_wait_ms_max=50)), LOG)
    with store.append(LOG), pytest.raises(OperationalError):
        hasty.insert_events([_stored(0, version=1)])
    assert hasty.insert_events([_stored(0, version=1)]) == [1]


def test_an_unknown_commit_is_never_called_an_error_of_the_library() -> None:
    """The library repeats what failed with its own errors; this must not be repeated blindly."""
    assert not issubclass(CommitUnknown, OperationalError | IntegrityError)
