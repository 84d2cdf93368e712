"""The judges can be wrong in one direction only: what is changed behind the log's back is found."""

from __future__ import annotations

import pytest

from ledger.core.run_events import SealedRef
from ledger.store.tables import Column, Row, Table, Value
from ledger.vault import Opened, Vault
from projections.rebuild import REBUILT, Rebuild, differences
from tests.support.driving import driven, said
from tests.support.in_process import LedgerInProcess
from tests.support.oracle import all_rows
from tests.support.oracle_model import check_history

MOVED_BY_RENEWALS = {("leases", "expires_us"), ("leases", "due_us")}


def _history(ledger: LedgerInProcess) -> None:
    one, two = driven(ledger, "run-1"), driven(ledger, "run-2")
    one.ended("s", key="k", arguments=b"{}")
    two.plan("t", key="k", arguments=b"{}")
    assert said(two.start("t")) == "REPLAY_SUCCEEDED"
    two.left_unknown("u", tool="send")


def _differences(ledger: LedgerInProcess) -> list[str]:
    vault = Vault(ledger.house.keyring)
    with ledger.store.read() as reading:

        def fingerprint(ref: SealedRef, tool: str) -> bytes:
            opened = vault.open(reading, ledger.log, ref.id)
            assert isinstance(opened, Opened)
            key = vault.fingerprint_under(
                reading, ledger.log, key_id=ref.key_id, tool=tool, content=opened.content
            )
            return key or b""

        rebuild = Rebuild(ledger.log, fingerprint=fingerprint)
        for entry in ledger.entries():
            rebuild.take(entry.raw)
        return [each.table for each in differences(reading, ledger.log, rebuild.rows())]


def _other(column: Column, value: Value) -> Value:
    match value:
        case None:
            return 7
        case int():
            return value + 1
        case str():
            return value + "x"
        case bytes():
            return value + b" " if column.name == "fold" else bytes(reversed(value))


def _set(ledger: LedgerInProcess, table: Table, row: Row) -> None:
    with ledger.store.change() as changing:
        changing.upsert(table, [row])


@pytest.mark.parametrize("table", REBUILT, ids=lambda table: str(table.name))
def test_every_column_that_the_log_decides_is_compared(
    ledger: LedgerInProcess, table: Table
) -> None:
    _history(ledger)
    assert _differences(ledger) == []
    with ledger.store.read() as reading:
        row = all_rows(reading, table, tenant=ledger.tenant)[0]
    for at, column in enumerate(table.columns):
        if column.name in table.key or (table.name, column.name) in MOVED_BY_RENEWALS:
            continue
        changed = (*row[:at], _other(column, row[at]), *row[at + 1 :])
        _set(ledger, table, changed)
        assert _differences(ledger) == [table.name], column.name
        _set(ledger, table, row)


@pytest.mark.parametrize("table", REBUILT, ids=lambda table: str(table.name))
def test_a_row_that_is_missing_is_found(ledger: LedgerInProcess, table: Table) -> None:
    _history(ledger)
    with ledger.store.read() as reading:
        row = all_rows(reading, table, tenant=ledger.tenant)[0]
    key = tuple(value for name, value in zip(table.names, row, strict=True) if name in table.key)
    with ledger.store.change() as changing:
        changing.delete(table, [key])
    assert _differences(ledger) == [table.name]
    _set(ledger, table, row)


def test_a_history_without_one_of_its_entries_is_unlawful(ledger: LedgerInProcess) -> None:
    _history(ledger)
    entries = ledger.entries()
    check_history(entries)
    needed = {
        "run.opened",
        "lease.acquired",
        "tool.declared",
        "step.planned",
        "step.started",
        "step.completed",
    }
    for at, left_out in enumerate(entries):
        if left_out.type in needed:
            with pytest.raises((AssertionError, LookupError)):
                check_history([*entries[:at], *entries[at + 1 :]])
