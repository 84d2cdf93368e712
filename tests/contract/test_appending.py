"""Appends: all or nothing, one at a time, in the order of the head's lock."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledger.core.errors import InvariantViolation
from ledger.store.errors import DuplicateRow, HeadMissing, StoreUnavailable
from ledger.store.interface import Appending, Store, StoredHead
from ledger.store.settings import StoreSettings
from ledger.store.tables import ALL, CLAIMS, ENTRIES, HEADS, RUNS, Row, Table
from tests.support.rows import LOG, ORIGIN, append_one, count, entry, make_head, row, size
from tests.support.stores import OpenAgain

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 30

APPENDS_MANY = """
import os, sys
from ledger.store.opening import open_store
from tests.support.rows import append_one

store = open_store(os.environ["STORE_URL"])
for _ in range(int(sys.argv[1])):
    append_one(store)
store.close()
"""


@pytest.fixture(autouse=True)
def _a_log(store: Store) -> None:
    make_head(store)


def test_an_append_is_there_for_every_later_reader(store: Store, open_again: OpenAgain) -> None:
    with store.append(LOG) as appending:
        assert appending.locked_head == StoredHead(LOG, ORIGIN, 0, bytes(8), 0)
        appending.insert(ENTRIES, [entry(0), entry(1)])
        appending.set_head(size=2, frontier=b"f" * 40, time_us=7)
    with open_again().read() as reading:
        assert reading.head(LOG) == StoredHead(LOG, ORIGIN, 2, b"f" * 40, 7)
        assert reading.page(ENTRIES, equal={"log": LOG}, order=["idx"], limit=9) == [
            entry(0),
            entry(1),
        ]


@pytest.mark.parametrize("table", [it for it in ALL if it is not HEADS], ids=lambda it: it.name)
def test_a_row_of_every_table_comes_back_as_it_went_in(store: Store, table: Table) -> None:
    rows: list[Row] = [row(table, 0), row(table, 2**40)]
    with store.append(LOG) as appending:
        appending.insert(table, rows)
    with store.read() as reading:
        keys = [tuple(it[table.names.index(name)] for name in table.key) for it in rows]
        assert sorted(reading.get(table, keys)) == sorted(rows)


def test_an_exception_in_the_block_takes_everything_back(store: Store) -> None:
    def write(appending: Appending) -> None:
        appending.insert(ENTRIES, [entry(0)])
        appending.update(HEADS, {"size": 9}, equal={"log": LOG})
        raise KeyError

    with pytest.raises(KeyError), store.append(LOG) as appending:
        write(appending)
    assert size(store) == 0
    assert append_one(store) == 0


def test_a_duplicate_takes_everything_back(store: Store) -> None:
    append_one(store)

    def write(appending: Appending) -> None:
        appending.upsert(RUNS, [row(RUNS, 5)])
        appending.insert(ENTRIES, [entry(1), entry(0)])
        appending.set_head(size=2, frontier=bytes(8), time_us=1)

    with pytest.raises(DuplicateRow), store.append(LOG) as appending:
        write(appending)
    assert size(store) == 1
    assert count(store, ENTRIES) == 1
    assert count(store, RUNS) == 0
    assert append_one(store) == 1


def test_a_run_has_one_entry_of_each_version(store: Store) -> None:
    append_one(store, run="a", version=3)
    with pytest.raises(DuplicateRow):
        append_one(store, run="a", version=3)
    assert append_one(store, run="b", version=3) == 1


def test_two_equal_rows_in_one_insert_are_a_duplicate(store: Store) -> None:
    with pytest.raises(DuplicateRow), store.append(LOG) as appending:
        appending.insert(ENTRIES, [entry(0), entry(0)])
    assert count(store, ENTRIES) == 0


def test_a_log_without_a_head_is_missing(store: Store) -> None:
    with pytest.raises(HeadMissing), store.append(LOG + 1):
        raise AssertionError("the block was entered")
    with pytest.raises(HeadMissing), store.read() as reading:
        reading.head(LOG + 1)


def test_an_origin_has_one_log(store: Store) -> None:
    with pytest.raises(DuplicateRow):
        make_head(store, log=LOG + 1, origin=ORIGIN)


def test_a_head_moves_once_in_a_block(store: Store) -> None:
    with store.append(LOG) as appending:
        appending.set_head(size=1, frontier=bytes(8), time_us=1)
        with pytest.raises(InvariantViolation):
            appending.set_head(size=2, frontier=bytes(8), time_us=2)
    assert size(store) == 1


def test_a_block_that_was_left_takes_no_more_writes(store: Store) -> None:
    with store.append(LOG) as appending:
        pass
    with pytest.raises(InvariantViolation):
        appending.insert(ENTRIES, [entry(0)])


@contextmanager
def _held_by_another_thread(store: Store) -> Iterator[tuple[threading.Event, list[int]]]:
    """An append that is open until the event is set; the list gets the clock just before that."""
    entered, leave, left_us = threading.Event(), threading.Event(), list[int]()

    def hold() -> None:
        with store.append(LOG) as appending:
            entered.set()
            assert leave.wait(WAIT_S)
            left_us.append(appending.clock_us())

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        assert entered.wait(WAIT_S)
        try:
            yield leave, left_us
        finally:
            leave.set()
            holding.result(WAIT_S)


@pytest.mark.parametrize("whose", ["own", "other"])
def test_an_append_waits_for_the_one_before_and_then_reads_the_clock(
    store: Store, open_again: OpenAgain, whose: str
) -> None:
    second = store if whose == "own" else open_again()
    with _held_by_another_thread(store) as (leave, left_us), ThreadPoolExecutor(1) as pool:
        began = threading.Event()

        def follow() -> Appending:
            began.set()
            with second.append(LOG) as appending:
                return appending

        following = pool.submit(follow)
        assert began.wait(WAIT_S)
        leave.set()
        assert following.result(WAIT_S).locked_clock_us >= left_us[0]


@pytest.mark.parametrize("whose", ["own", "other"])
def test_a_lock_is_not_waited_for_beyond_its_bound(
    open_again: OpenAgain, store: Store, whose: str
) -> None:
    hasty = open_again(StoreSettings(lock_wait_ms_max=50))
    holder = hasty if whose == "own" else store
    with _held_by_another_thread(holder), pytest.raises(StoreUnavailable):
        append_one(hasty)
    assert append_one(hasty) == 0


def test_appends_of_several_processes_leave_no_gap(store: Store, store_url: str) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", APPENDS_MANY, "40"],
            cwd=ROOT,
            env={**os.environ, "STORE_URL": store_url},
        )
        for _ in range(3)
    ]
    for _ in range(40):
        append_one(store)
    assert [child.wait(90) for child in children] == [0, 0, 0]
    assert size(store) == 160
    with store.read() as reading:
        found = reading.page(ENTRIES, equal={"log": LOG}, order=["idx"], limit=200)
    assert [it[1] for it in found] == list(range(160))


def test_appends_of_several_threads_leave_no_gap(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        indexes = list(pool.map(lambda _: append_one(store), range(80)))
    assert sorted(indexes) == list(range(80))
    assert size(store) == 80


def test_a_reader_that_sees_an_index_sees_every_one_below(store: Store) -> None:
    ended = threading.Event()

    def read_on() -> list[int]:
        seen = []
        while not ended.is_set():
            with store.read() as reading:
                rows = reading.page(ENTRIES, equal={"log": LOG}, order=["idx"], limit=500)
                assert [it[1] for it in rows] == list(range(reading.head(LOG).size))
                seen.append(len(rows))
        return seen

    with ThreadPoolExecutor(2) as pool:
        reading = [pool.submit(read_on) for _ in range(2)]
        for _ in range(60):
            append_one(store)
        ended.set()
        for each in reading:
            assert each.result(WAIT_S) == sorted(each.result())


def test_rows_under_a_lock_are_the_newest(store: Store, open_again: OpenAgain) -> None:
    with store.change() as changing:
        changing.insert(CLAIMS, [row(CLAIMS, 1)])
    other = open_again()
    entered = threading.Event()

    def settle() -> None:
        entered.set()
        with other.change() as changing:
            (found,) = changing.get(CLAIMS, [row(CLAIMS, 1)[:3]], lock=True)
            was = found[CLAIMS.names.index("state")]
            changing.upsert(CLAIMS, [row(CLAIMS, 1, state="mine+" if was == "mine" else "lost")])

    with ThreadPoolExecutor(1) as pool:
        with store.append(LOG) as appending:
            (held,) = appending.get(CLAIMS, [row(CLAIMS, 1)[:3]], lock=True)
            settling = pool.submit(settle)
            assert entered.wait(WAIT_S)
            appending.update(
                CLAIMS, {"state": "mine"}, equal=dict(zip(CLAIMS.key, held[:3], strict=True))
            )
        settling.result(WAIT_S)
    with store.read() as reading:
        (found,) = reading.get(CLAIMS, [row(CLAIMS, 1)[:3]])
    assert found[CLAIMS.names.index("state")] == "mine+"


def test_the_clock_is_shifted_as_told(open_again: OpenAgain, store: Store) -> None:
    hour_us = 3_600_000_000
    ahead = open_again(StoreSettings(clock_shift_us=lambda: hour_us))
    with store.append(LOG) as appending:
        now_us, again_us = appending.locked_clock_us, appending.clock_us()
    with ahead.append(LOG) as appending:
        assert appending.locked_clock_us >= now_us + hour_us
        assert appending.clock_us() >= again_us + hour_us
    assert again_us >= now_us
