"""Inline projections are compared with the log, and put right, in one transaction."""

from __future__ import annotations

import pytest

from ledger.store.tables import LEASES, STEPS, UNKNOWNS, Row, Table
from ledger.vault import Vault
from projections.mending import Mending, columns_of, key_of
from projections.rebuild import REBUILT
from tests.support.driving import driven
from tests.support.in_process import LedgerInProcess
from tests.support.oracle import all_rows


def _mending(ledger: LedgerInProcess) -> Mending:
    return Mending(ledger.store, Vault(ledger.house.keyring).fingerprint_of, ledger.log)


def _quiet(done: int, size: int) -> None:
    assert done <= size


def _rows(ledger: LedgerInProcess, table: Table) -> list[Row]:
    with ledger.store.read() as reading:
        return all_rows(reading, table, tenant=ledger.tenant)


def _history(ledger: LedgerInProcess) -> None:
    one = driven(ledger, "run-1")
    one.ended("s", key="k", arguments=b"{}")
    one.left_unknown("u", tool="send")


def test_rows_that_say_what_the_log_says_are_left_alone(ledger: LedgerInProcess) -> None:
    _history(ledger)
    before = {table.name: _rows(ledger, table) for table in REBUILT}
    assert _mending(ledger).check(_quiet) == []
    assert _mending(ledger).rebuild(_quiet) == []
    assert {table.name: _rows(ledger, table) for table in REBUILT} == before


@pytest.mark.parametrize("table", REBUILT, ids=lambda table: str(table.name))
def test_a_row_that_is_gone_is_named_and_made_again(ledger: LedgerInProcess, table: Table) -> None:
    _history(ledger)
    if table.name == "replays":
        other = driven(ledger, "run-2")
        other.plan("t", key="k", arguments=b"{}")
        other.start("t")
    before = _rows(ledger, table)
    row = before[0]
    key = tuple(value for name, value in zip(table.names, row, strict=True) if name in table.key)
    with ledger.store.change() as changing:
        changing.delete(table, [key])
    (found,) = _mending(ledger).check(_quiet)
    assert (found.table, found.stored, tuple(key_of(found))) == (table.name, None, key[1:])
    assert len(_mending(ledger).rebuild(_quiet)) == 1
    if table is not LEASES:
        assert _rows(ledger, table) == before
    assert _mending(ledger).check(_quiet) == []


def test_a_changed_column_is_named_and_put_back(ledger: LedgerInProcess) -> None:
    _history(ledger)
    before = _rows(ledger, STEPS)
    row = before[0]
    at = STEPS.names.index("state")
    with ledger.store.change() as changing:
        changing.upsert(STEPS, [(*row[:at], "WITHDRAWN", *row[at + 1 :])])
    (found,) = _mending(ledger).check(_quiet)
    assert (found.table, columns_of(found)) == ("steps", ["state"])
    _mending(ledger).rebuild(_quiet)
    assert _rows(ledger, STEPS) == before


def test_a_row_that_is_in_no_log_is_removed(ledger: LedgerInProcess) -> None:
    _history(ledger)
    before = _rows(ledger, UNKNOWNS)
    with ledger.store.change() as changing:
        changing.upsert(UNKNOWNS, [(before[0][0], "run-9", *before[0][2:])])
    assert len(_mending(ledger).rebuild(_quiet)) == 1
    assert _rows(ledger, UNKNOWNS) == before


def test_a_rebuild_that_is_broken_off_changes_nothing(ledger: LedgerInProcess) -> None:
    _history(ledger)
    row = _rows(ledger, STEPS)[0]
    with ledger.store.change() as changing:
        changing.delete(STEPS, [row[:3]])
    before = _rows(ledger, STEPS)

    def fails(done: int, size: int) -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        _mending(ledger).rebuild(fails)
    assert _rows(ledger, STEPS) == before
    _mending(ledger).rebuild(_quiet)
