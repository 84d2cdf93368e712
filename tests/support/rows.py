"""Rows that the tables take, made from a number: equal numbers give equal rows."""

from __future__ import annotations

from typing import Final

from ledger.store.interface import Store
from ledger.store.tables import ENTRIES, HEADS, Column, Row, Table, Value

ORIGIN: Final = "ledger.test/one"
LOG: Final = 1

_LENGTHS: Final = {"leaf": 32, "digest": 32, "hashes": 64, "id": 16}
_SMALL: Final = frozenset({"open", "level"})


def row(table: Table, number: int, **given: Value) -> Row:
    """A row of any table. `given` replaces columns by name; no two numbers share a unique key."""
    assert given.keys() <= set(table.names)
    return tuple(given.get(column.name, _value(column, number)) for column in table.columns)


def entry(index: int, *, log: int = LOG, run: str = "run", size: int = 20) -> Row:
    """A row of entries, whose bytes mean nothing."""
    octets = index.to_bytes(8, "big") * (size // 8 + 1)
    return (log, index, run, index, "run.opened", octets[:size], index.to_bytes(32, "big"))


def make_head(store: Store, log: int = LOG, origin: str = ORIGIN) -> None:
    """Makes an empty log."""
    with store.change() as changing:
        changing.insert(HEADS, [(log, origin, 0, bytes(8), 0)])


def append_one(store: Store, log: int = LOG, **given: Value) -> int:
    """Appends one entry and answers its index."""
    with store.append(log) as appending:
        index = appending.locked_head.size
        appending.insert(ENTRIES, [row(ENTRIES, index, log=log, idx=index, **given)])
        appending.set_head(size=index + 1, frontier=bytes(8), time_us=appending.locked_clock_us)
    return index


def size(store: Store, log: int = LOG) -> int:
    """The head's size as a new snapshot sees it."""
    with store.read() as reading:
        return reading.head(log).size


def count(store: Store, table: Table) -> int:
    """How many rows a table has, 20,000 at most."""
    with store.read() as reading:
        return len(reading.page(table, equal={}, order=table.key, limit=20_000))


def _value(column: Column, number: int) -> Value:
    match column.kind:
        case "int":
            return number % 2 if column.name in _SMALL else number + 1
        case "text":
            return f"{column.name}-{number}"
        case "bytes":
            length = _LENGTHS.get(column.name, 24)
            return number.to_bytes(8, "big") * (length // 8)
