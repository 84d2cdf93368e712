"""SQL texts that both databases understand alike; only the mark of a parameter differs.

Texts and nothing else: who sends them, when, and what an error means is each store's own affair.
Every text names its columns, so a column that a later migration adds changes no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from ledger.store.tables import Table

Mark = Callable[[int], str]
"""How the n-th parameter (from 1) is written."""

APPLIED_MIGRATIONS: Final = "SELECT name, digest FROM schema_migrations ORDER BY name"


@dataclass(frozen=True, slots=True)
class PageShape:
    """What a page asks for, without its values. `equal_null` are columns that must be NULL.

    Parameters, in this order: `equal`, the `order` values of `after` where `resumes`, `greater`,
    the limit."""

    table: Table
    equal: tuple[str, ...]
    equal_null: tuple[str, ...]
    order: tuple[str, ...]
    resumes: bool
    greater: tuple[str, ...]
    descending: bool


@dataclass(frozen=True, slots=True)
class UpdateShape:
    """What an update changes and where. Parameters, in this order: `values`, `equal`, `greater`."""

    table: Table
    values: tuple[str, ...]
    equal: tuple[str, ...]
    equal_null: tuple[str, ...]
    greater: tuple[str, ...]


def listed(names: Sequence[str], prefix: str = "") -> str:
    """`a, b`, or `t.a, t.b` with a prefix."""
    return ", ".join(prefix + name for name in names)


@cache
def page(shape: PageShape, mark: Mark) -> str:
    """SELECT of at most so many rows, in index order."""
    next_mark = _Marks(mark)
    where = _conditions(next_mark, shape.equal, shape.equal_null)
    if shape.resumes:
        above = "<" if shape.descending else ">"
        marks = ", ".join(next_mark() for _ in shape.order)
        where.append(f"({listed(shape.order)}) {above} ({marks})")
    where += [f"{name} > {next_mark()}" for name in shape.greater]
    direction = " DESC" if shape.descending else ""
    order = ", ".join(name + direction for name in shape.order)
    return f"{select_from(shape.table)}{_where(where)} ORDER BY {order} LIMIT {next_mark()}"


@cache
def get_some(table: Table, columns: tuple[str, ...], mark: Mark, count: int) -> str:
    """SELECT of the rows whose named columns equal one of `count` lists of parameters.

    CROSS JOIN holds SQLite to one search of the index for each; IN with VALUES reads the table.
    """
    next_mark = _Marks(mark)
    names = [f"k{at}" for at in range(len(columns))]
    keys = ", ".join(f"({', '.join(next_mark() for _ in names)})" for _ in range(count))
    own = f"{table.name}."
    where = " AND ".join(f"{own}{column} = {k}" for column, k in zip(columns, names, strict=True))
    return (
        f"WITH asked ({listed(names)}) AS (VALUES {keys})"  # noqa: S608 - names of tables
        f" SELECT {listed(table.names, own)} FROM asked CROSS JOIN {table.name} ON {where}"
    )


@cache
def delete_one(table: Table, mark: Mark) -> str:
    """DELETE of the row of one primary key."""
    return f"{delete_from(table)}{_where(_conditions(_Marks(mark), table.key, ()))}"


@cache
def update(shape: UpdateShape, mark: Mark) -> str:
    """UPDATE of the named columns where the conditions hold."""
    next_mark = _Marks(mark)
    values = ", ".join(f"{name} = {next_mark()}" for name in shape.values)
    where = _conditions(next_mark, shape.equal, shape.equal_null)
    where += [f"{name} > {next_mark()}" for name in shape.greater]
    return f"UPDATE {shape.table.name} SET {values}{_where(where)}"  # noqa: S608 - names of tables


def select_from(table: Table) -> str:
    """The first half of a select of whole rows."""
    return f"SELECT {listed(table.names)} FROM {table.name}"  # noqa: S608 - names of tables


def delete_from(table: Table) -> str:
    """The first half of a delete."""
    return f"DELETE FROM {table.name}"  # noqa: S608 - names of tables


@cache
def insert_into(table: Table) -> str:
    """The first half of an insert: what follows says where the rows come from."""
    return f"INSERT INTO {table.name} ({listed(table.names)})"


@cache
def or_replace(table: Table) -> str:
    """The second half of an upsert: the row of equal primary key takes every other value."""
    others = [name for name in table.names if name not in table.key]
    values = ", ".join(f"{name} = excluded.{name}" for name in others)
    return f" ON CONFLICT ({listed(table.key)}) DO UPDATE SET {values}"


class _Marks:
    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._count = 0

    def __call__(self) -> str:
        self._count += 1
        return self._mark(self._count)


def _conditions(next_mark: _Marks, equal: Sequence[str], equal_null: Sequence[str]) -> list[str]:
    return [f"{name} = {next_mark()}" for name in equal] + [
        f"{name} IS NULL" for name in equal_null
    ]


def _where(conditions: Sequence[str]) -> str:
    return " WHERE " + " AND ".join(conditions) if conditions else ""
