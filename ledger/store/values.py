"""Checks rows before anything is sent: what one database takes and the other not is refused.

PostgreSQL cannot keep a NUL in text, neither keeps a lone surrogate, and SQLite counts a bool as a
number. All of it raises ValueError at the call that brought it, with nothing written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Final

from ledger.store.tables import Column, Row, Table, Value

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1

_TYPES: Final = {"int": int, "text": str, "bytes": bytes}


@cache
def columns_named(table: Table, names: tuple[str, ...]) -> tuple[Column, ...]:
    """The named columns in the order asked for. Raises ValueError for a name the table lacks."""
    known = {column.name: column for column in table.columns}
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(f"table {table.name} has no column {', '.join(missing)}")
    return tuple(known[name] for name in names)


@cache
def key_of(table: Table) -> Callable[[Row], Row]:
    """What takes the primary key out of a row of the table."""
    places = [table.names.index(name) for name in table.key]
    if len(places) == 1:
        return itemgetter(slice(places[0], places[0] + 1))
    return itemgetter(*places)


def check_rows(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Refuses rows of another length, values of another kind, NULL where there is none, integers
    past 64 bits, and text with NUL or a lone surrogate. Raises ValueError; never shows a value."""
    if set(map(len, rows)) - {len(columns)}:
        raise ValueError(f"a row has not {len(columns)} values")
    for column, values in zip(columns, zip(*rows, strict=True), strict=False):
        _check_values(column, values)


def check_named(table: Table, values: Mapping[str, Value]) -> None:
    """`check_rows` for one row that is given by the names of its columns."""
    columns = columns_named(table, tuple(values))
    check_rows(columns, [tuple(values.values())])


def _check_values(column: Column, values: Sequence[Any]) -> None:
    kinds = set(map(type, values))
    if column.null and type(None) in kinds:
        kinds.discard(type(None))
        values = [value for value in values if value is not None]
    if kinds - {_TYPES[column.kind]}:
        raise ValueError(f"a value of column {column.name} is not {column.kind}")
    if column.kind == "text":
        _check_text(column, "".join(values))
    elif column.kind == "int" and values and not INT_MIN <= min(values) <= max(values) <= INT_MAX:
        raise ValueError(f"a value of column {column.name} does not fit 64 bits")


def _check_text(column: Column, text: str) -> None:
    if "\x00" in text:
        raise ValueError(f"a text of column {column.name} holds NUL")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError(f"a text of column {column.name} holds a lone surrogate") from None
