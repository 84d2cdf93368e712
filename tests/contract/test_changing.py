"""Writes without the head's lock: conditions, replacing, removing, and the order of all of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from ledger.core.errors import InvariantViolation
from ledger.store.errors import DuplicateRow
from ledger.store.interface import Changing, Store
from ledger.store.tables import (
    DATA_KEYS,
    ENTRIES,
    LEASES,
    PAYLOADS,
    RUNS,
    SUBJECTS,
    UNKNOWNS,
    Row,
    Table,
)
from tests.support.rows import LOG, append_one, count, make_head, row
from tests.support.stores import OpenAgain

MIB = 1024 * 1024


def _all(store: Store, table: Table) -> list[Row]:
    with store.read() as reading:
        return reading.page(table, equal={}, order=table.key, limit=100)


def test_a_lease_is_renewed_only_while_it_lives(store: Store) -> None:
    lease = row(LEASES, 1, tenant="t", run="r", token=7, ended="", expires_us=100)
    with store.change() as changing:
        changing.insert(LEASES, [lease])

    def renew(*, token: int, now_us: int) -> int:
        with store.change() as changing:
            return changing.update(
                LEASES,
                {"expires_us": now_us + 50},
                equal={"tenant": "t", "run": "r", "token": token, "ended": ""},
                greater={"expires_us": now_us},
            )

    assert renew(token=7, now_us=99) == 1
    assert renew(token=7, now_us=149) == 0
    assert renew(token=6, now_us=100) == 0
    assert _all(store, LEASES) == [
        row(LEASES, 1, tenant="t", run="r", token=7, ended="", expires_us=149)
    ]


def test_an_update_counts_every_row_it_changes(store: Store) -> None:
    with store.change() as changing:
        changing.insert(RUNS, [row(RUNS, n, tenant="t", status="") for n in range(5)])
        assert changing.update(RUNS, {"status": "x"}, equal={"tenant": "t", "status": ""}) == 5
        assert changing.update(RUNS, {"status": "y"}, equal={"tenant": "t", "status": ""}) == 0
    assert {it[RUNS.names.index("status")] for it in _all(store, RUNS)} == {"x"}


def test_an_update_can_set_and_ask_for_null(store: Store) -> None:
    with store.change() as changing:
        changing.insert(DATA_KEYS, [row(DATA_KEYS, 1, open=1, destroyed_idx=None)])
        assert (
            changing.update(
                DATA_KEYS, {"open": 0, "destroyed_idx": 3}, equal={"destroyed_idx": None}
            )
            == 1
        )
        assert changing.update(DATA_KEYS, {"destroyed_idx": None}, equal={"destroyed_idx": 3}) == 1
    assert _all(store, DATA_KEYS) == [row(DATA_KEYS, 1, open=0, destroyed_idx=None)]


def test_an_update_that_makes_a_duplicate_takes_everything_back(store: Store) -> None:
    with store.change() as changing:
        changing.insert(SUBJECTS, [row(SUBJECTS, 1, tenant="t"), row(SUBJECTS, 2, tenant="t")])

    def write(changing: Changing) -> None:
        changing.insert(SUBJECTS, [row(SUBJECTS, 3)])
        changing.update(SUBJECTS, {"run": "run-1"}, equal={"run": "run-2"})

    with pytest.raises(DuplicateRow), store.change() as changing:
        write(changing)
    assert count(store, SUBJECTS) == 2


def test_an_upsert_adds_or_replaces(store: Store) -> None:
    with store.change() as changing:
        changing.upsert(RUNS, [row(RUNS, 1), row(RUNS, 2)])
    replaced = row(RUNS, 2, version=99, fold=b"", status="COMPLETED")
    with store.change() as changing:
        changing.upsert(RUNS, [replaced, row(RUNS, 3)])
    assert _all(store, RUNS) == [row(RUNS, 1), replaced, row(RUNS, 3)]


def test_an_upsert_does_not_take_over_a_row_of_another_key(store: Store) -> None:
    with store.change() as changing:
        changing.insert(DATA_KEYS, [row(DATA_KEYS, 1, tenant="t", owner="o", open=1)])
    with pytest.raises(DuplicateRow), store.change() as changing:
        changing.upsert(DATA_KEYS, [row(DATA_KEYS, 3, tenant="t", owner="o", open=1)])
    with store.change() as changing:
        changing.upsert(DATA_KEYS, [row(DATA_KEYS, 3, tenant="t", owner="o", open=0)])
    assert count(store, DATA_KEYS) == 2


def test_keys_within_one_upsert_are_distinct(store: Store) -> None:
    with pytest.raises(InvariantViolation), store.change() as changing:
        changing.upsert(RUNS, [row(RUNS, 1), row(RUNS, 1, version=5)])
    assert count(store, RUNS) == 0


def test_writes_take_effect_in_the_order_of_the_calls(store: Store) -> None:
    key = ("tenant-1", "run-1", "step-1")
    with store.change() as changing:
        changing.upsert(UNKNOWNS, [row(UNKNOWNS, 1, rank=1)])
        changing.upsert(UNKNOWNS, [row(UNKNOWNS, 1, rank=2), row(UNKNOWNS, 2)])
        changing.delete(UNKNOWNS, [key, ("no", "such", "row")])
        changing.insert(UNKNOWNS, [row(UNKNOWNS, 1, rank=3)])
        changing.upsert(UNKNOWNS, [row(UNKNOWNS, 1, rank=4)])
        changing.delete(UNKNOWNS, [("tenant-2", "run-2", "step-2")])
    assert _all(store, UNKNOWNS) == [row(UNKNOWNS, 1, rank=4)]
    with store.change() as changing:
        changing.delete(UNKNOWNS, [key, key])
    assert _all(store, UNKNOWNS) == []


def test_changes_of_other_rows_do_not_lose_each_other(store: Store, open_again: OpenAgain) -> None:
    with store.change() as changing:
        changing.insert(LEASES, [row(LEASES, n, token=1) for n in range(4)])
    others = [store, open_again()]

    def count_up(worker: int) -> None:
        run = {"tenant": f"tenant-{worker}", "run": f"run-{worker}"}
        for token in range(1, 11):
            with others[worker % 2].change() as changing:
                assert (
                    changing.update(LEASES, {"token": token + 1}, equal={**run, "token": token})
                    == 1
                )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count_up, range(4)))
    assert [it[2] for it in _all(store, LEASES)] == [11] * 4


def test_only_one_of_two_concurrent_claims_wins(store: Store, open_again: OpenAgain) -> None:
    stores = [store, open_again()]

    def claim(number: int) -> bool:
        try:
            with stores[number % 2].change() as changing:
                changing.insert(SUBJECTS, [("t", "r", f"subject-{number}")])
        except DuplicateRow:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, range(8))) == 1


def test_sixteen_mebibytes_come_back_as_they_went_in(store: Store) -> None:
    make_head(store)
    sealed = bytes(range(256)) * (16 * MIB // 256)
    with store.append(LOG) as appending:
        appending.insert(PAYLOADS, [row(PAYLOADS, 1, sealed=sealed), row(PAYLOADS, 2, sealed=b"")])
    with store.read() as reading:
        (found,) = reading.get(PAYLOADS, [(2, row(PAYLOADS, 1)[1])])
    assert found[-1] == sealed


def test_ten_thousand_rows_go_in_one_block(store: Store) -> None:
    make_head(store)
    rows = [
        row(ENTRIES, n, log=LOG, idx=n, entry=n.to_bytes(4, "big") * 250) for n in range(10_000)
    ]
    with store.append(LOG) as appending:
        appending.insert(ENTRIES, rows[:9_000])
        appending.upsert(RUNS, [row(RUNS, n) for n in range(10_000)])
        appending.insert(ENTRIES, rows[9_000:])
        appending.set_head(size=10_000, frontier=bytes(8), time_us=1)
    assert append_one(store) == 10_000
    assert count(store, RUNS) == 10_000
    with store.read() as reading:
        assert reading.page(ENTRIES, equal={"log": LOG}, order=["idx"], limit=10_000) == rows


def test_a_row_that_breaks_a_rule_of_its_table_is_our_own_mistake(store: Store) -> None:
    with pytest.raises(InvariantViolation) as caught, store.change() as changing:
        changing.insert(DATA_KEYS, [row(DATA_KEYS, 1, open=7, wrapped=b"secret")])
    assert "secret" not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert b"secret".hex() not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert count(store, DATA_KEYS) == 0
