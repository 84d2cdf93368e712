"""Reads: one snapshot, rows by key, pages in the order asked for."""

from __future__ import annotations

import pytest

from ledger.core.errors import InvariantViolation
from ledger.store.interface import Reading, Store
from ledger.store.tables import (
    CHECKPOINTS,
    DATA_KEYS,
    ENTRIES,
    LEASES,
    REQUESTS,
    RUNS,
    STEPS,
    UNKNOWNS,
    Row,
    Table,
)
from tests.support.rows import LOG, append_one, make_head, row
from tests.support.stores import OpenAgain


def _insert(store: Store, table: Table, rows: list[Row]) -> None:
    with store.change() as changing:
        changing.insert(table, rows)


def test_a_read_sees_one_moment_only(store: Store, open_again: OpenAgain) -> None:
    make_head(store)
    append_one(store)
    with store.read() as reading:
        append_one(open_again())
        append_one(store)
        assert reading.head(LOG).size == 1
        assert len(reading.page(ENTRIES, equal={"log": LOG}, order=["idx"], limit=9)) == 1
        append_one(store)
        assert reading.head(LOG).size == 1
    with store.read() as reading:
        assert reading.head(LOG).size == 4


def test_a_moment_is_taken_when_the_block_is_entered(store: Store) -> None:
    make_head(store)
    with store.read() as reading:
        append_one(store)
        assert reading.head(LOG).size == 0


def test_a_read_does_not_see_what_is_not_committed(store: Store, open_again: OpenAgain) -> None:
    make_head(store)
    with store.append(LOG) as appending:
        appending.update(RUNS, {"status": "x"}, equal={"run": "none"})
        appending.insert(RUNS, [row(RUNS, 1)])
        appending.update(RUNS, {"status": "closed"}, equal={"run": "run-1"})
        with open_again().read() as reading:
            assert reading.get(RUNS, [("tenant-1", "run-1")]) == []
    with store.read() as reading:
        assert len(reading.get(RUNS, [("tenant-1", "run-1")])) == 1


def test_rows_come_by_key_each_once_and_missing_ones_are_left_out(store: Store) -> None:
    rows = [row(REQUESTS, number) for number in range(5)]
    _insert(store, REQUESTS, rows)
    keys: list[Row] = [it[:3] for it in rows]
    with store.read() as reading:
        asked = [keys[3], ("none", "none", "none"), keys[1], keys[3]]
        assert sorted(reading.get(REQUESTS, asked)) == [rows[1], rows[3]]
        assert reading.get(REQUESTS, []) == []
        assert reading.get(REQUESTS, [(keys[1][0], keys[1][1], keys[3][2])]) == []


def test_many_rows_come_by_key_at_once(store: Store) -> None:
    rows = [row(REQUESTS, number) for number in range(3_000)]
    _insert(store, REQUESTS, rows)
    with store.read() as reading:
        assert sorted(reading.get(REQUESTS, [it[:3] for it in rows])) == sorted(rows)


def test_rows_come_by_other_unique_columns(store: Store) -> None:
    rows = [row(STEPS, number, tenant="t", run="r") for number in range(5)]
    _insert(store, STEPS, rows)
    with store.read() as reading:
        found = reading.get_by(
            STEPS, ("tenant", "run", "step"), [("t", "r", "step-3"), ("t", "r", "x")]
        )
    assert found == [rows[3]]


def _ordinals(reading: Reading, **asked: object) -> list[object]:
    rows = reading.page(STEPS, equal={"tenant": "t", "run": "r"}, **asked)  # type: ignore[arg-type]
    return [it[2] for it in rows]


@pytest.fixture
def steps(store: Store) -> Store:
    """Ordinals 0..9 of one run, changed at versions 9, 8, ... 0 by halves; and another run."""
    _insert(
        store,
        STEPS,
        [
            row(STEPS, n, tenant="t", run="r", ordinal=n, changed_version=9 - n // 2)
            for n in range(10)
        ]
        + [row(STEPS, n, tenant="t", run="s", ordinal=n) for n in range(3)],
    )
    return store


def test_a_page_is_in_order_and_no_longer_than_asked(steps: Store) -> None:
    with steps.read() as reading:
        assert _ordinals(reading, order=["ordinal"], limit=4) == [0, 1, 2, 3]
        assert _ordinals(reading, order=["ordinal"], limit=4, descending=True) == [9, 8, 7, 6]
        assert _ordinals(reading, order=["ordinal"], limit=0) == []
        assert len(_ordinals(reading, order=["ordinal"], limit=100)) == 10
        by_change = _ordinals(reading, order=["changed_version", "ordinal"], limit=5)
        assert by_change == [8, 9, 6, 7, 4]


def test_a_page_goes_on_strictly_after_a_row(steps: Store) -> None:
    with steps.read() as reading:
        assert _ordinals(reading, order=["ordinal"], after=(3,), limit=2) == [4, 5]
        down = _ordinals(reading, order=["ordinal"], after=(3,), limit=2, descending=True)
        assert down == [2, 1]
        changed = ["changed_version", "ordinal"]
        assert _ordinals(reading, order=changed, after=(5, 9), limit=3) == [6, 7, 4]
        assert _ordinals(reading, order=changed, after=(6, 6), limit=2) == [7, 4]
        assert _ordinals(reading, order=changed, after=(99, 0), limit=2) == []


def test_a_page_keeps_to_rows_above_a_value(steps: Store) -> None:
    with steps.read() as reading:
        changed = ["changed_version", "ordinal"]
        assert _ordinals(reading, order=changed, greater={"changed_version": 7}, limit=9) == [
            2,
            3,
            0,
            1,
        ]
        both = _ordinals(
            reading, order=changed, greater={"changed_version": 7}, after=(8, 3), limit=9
        )
        assert both == [0, 1]


def test_pages_follow_each_other_without_gap_or_repeat(steps: Store) -> None:
    order = ["tenant", "run", "ordinal"]
    with steps.read() as reading:
        found, after = [], None
        while rows := reading.page(STEPS, equal={}, order=order, after=after, limit=4):
            found += rows
            after = rows[-1][:3]
        assert found == reading.page(STEPS, equal={}, order=order, limit=100)
    assert len(found) == 13


def test_text_is_ordered_by_its_bytes(store: Store) -> None:
    runs = ["B", "_", "a", "Z", "ä", "a b", "\U0001f600", "\uffff", "a-b", "ab"]
    _insert(store, RUNS, [row(RUNS, n, tenant="t", run=run) for n, run in enumerate(runs)])
    with store.read() as reading:
        found = [it[1] for it in reading.page(RUNS, equal={"tenant": "t"}, order=["run"], limit=99)]
        after = reading.page(RUNS, equal={"tenant": "t"}, order=["run"], after=("a b",), limit=2)
    assert found == sorted(runs, key=str.encode)
    assert [it[1] for it in after] == ["a-b", "ab"]


def test_columns_that_must_be_null_are_asked_for_with_none(store: Store) -> None:
    open_key = row(DATA_KEYS, 1, tenant="t", owner="o", open=1, destroyed_idx=None)
    old_key = row(DATA_KEYS, 2, tenant="t", owner="o", open=0, destroyed_idx=4)
    _insert(store, DATA_KEYS, [open_key, old_key])
    with store.read() as reading:
        for wanted, found in ((None, open_key), (4, old_key)):
            equal = {"tenant": "t", "owner": "o", "destroyed_idx": wanted}
            assert reading.page(DATA_KEYS, equal=equal, order=["key_id"], limit=9) == [found]


def test_an_order_in_which_null_might_stand_is_refused(store: Store) -> None:
    due = row(LEASES, 1, tenant="t", due_us=5)
    _insert(store, LEASES, [due, row(LEASES, 2, tenant="t", due_us=None)])
    with store.read() as reading:
        with pytest.raises(ValueError, match="NULL"):
            reading.page(LEASES, equal={"tenant": "t"}, order=["due_us", "run"], limit=9)
        found = reading.page(
            LEASES, equal={"tenant": "t"}, greater={"due_us": 0}, order=["due_us", "run"], limit=9
        )
    assert found == [due]


def test_unknowns_come_by_rank_then_age(store: Store) -> None:
    def unknown(number: int, rank: int, since_us: int) -> Row:
        return row(UNKNOWNS, number, tenant="t", rank=rank, since_us=since_us)

    _insert(store, UNKNOWNS, [unknown(1, 1, 5), unknown(2, 0, 9), unknown(3, 0, 2)])
    with store.read() as reading:
        order = ["rank", "since_us", "run", "step"]
        rows = reading.page(UNKNOWNS, equal={"tenant": "t"}, order=order, limit=9)
    assert [it[1] for it in rows] == ["run-3", "run-2", "run-1"]


def test_the_newest_row_is_the_first_going_down(store: Store) -> None:
    _insert(store, CHECKPOINTS, [row(CHECKPOINTS, n, log=LOG, size=n) for n in (3, 2**40, 9)])
    with store.read() as reading:
        (newest,) = reading.page(
            CHECKPOINTS, equal={"log": LOG}, order=["size"], descending=True, limit=1
        )
    assert newest[1] == 2**40


def test_a_block_that_only_reads_locks_nothing(store: Store) -> None:
    with store.read() as reading, pytest.raises(InvariantViolation):
        reading.get(RUNS, [("t", "r")], lock=True)


def test_names_that_the_table_lacks_are_refused(store: Store) -> None:
    with store.read() as reading:
        with pytest.raises(ValueError, match="no column"):
            reading.page(RUNS, equal={"nothing": 1}, order=["run"], limit=1)
        with pytest.raises(ValueError, match="no column"):
            reading.page(RUNS, equal={}, order=["run; DROP TABLE runs"], limit=1)
        with pytest.raises(ValueError, match="no column"):
            reading.get_by(RUNS, ("nothing",), [(1,)])
        with pytest.raises(ValueError, match="an order"):
            reading.page(RUNS, equal={}, order=[], limit=1)
