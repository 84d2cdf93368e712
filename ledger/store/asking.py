"""Turns the arguments of a page or an update into a shape, which has a text, and its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ledger.store.statements import PageShape, UpdateShape
from ledger.store.tables import Row, Table, Value
from ledger.store.values import check_named, check_rows, columns_named


def asked_keys(table: Table, names: Sequence[str], keys: Sequence[Row]) -> list[Row]:
    """The keys, each once. Raises ValueError where one is none: NULL equals nothing."""
    distinct = list(dict.fromkeys(keys))
    check_rows(columns_named(table, tuple(names)), distinct)
    if any(None in key for key in distinct):
        raise ValueError(f"a key of {table.name} holds NULL")
    return distinct


def asked_page(
    table: Table,
    *,
    equal: Mapping[str, Value],
    order: Sequence[str],
    after: Row | None,
    greater: Mapping[str, Value] | None,
    descending: bool,
    limit: int,
) -> tuple[PageShape, list[Value]]:
    """The shape and parameters of a page. Raises ValueError for what no row can be compared to."""
    if limit < 0 or not order:
        raise ValueError("a page needs an order, and a limit of 0 or more")
    greater = greater or {}
    check_named(table, equal)
    _check_comparable(table, greater)
    unordered = [it.name for it in columns_named(table, tuple(order)) if it.null]
    if not greater.keys() >= set(unordered):
        raise ValueError("where NULL stands in an order, no two databases agree")
    if after is not None:
        _check_comparable(table, dict(zip(order, after, strict=True)))
    shape = PageShape(
        table=table,
        equal=_given(equal),
        equal_null=_null(equal),
        order=tuple(order),
        resumes=after is not None,
        greater=tuple(greater),
        descending=descending,
    )
    values = [value for value in equal.values() if value is not None]
    return shape, [*values, *(after or ()), *greater.values(), limit]


def asked_update(
    table: Table,
    values: Mapping[str, Value],
    *,
    equal: Mapping[str, Value],
    greater: Mapping[str, Value] | None,
) -> tuple[UpdateShape, list[Value]]:
    """The shape and parameters of an update. Raises ValueError for values a store cannot keep."""
    greater = greater or {}
    if not values or not equal:
        raise ValueError("an update needs values and at least one column that equals")
    check_named(table, values)
    check_named(table, equal)
    _check_comparable(table, greater)
    shape = UpdateShape(
        table=table,
        values=tuple(values),
        equal=_given(equal),
        equal_null=_null(equal),
        greater=tuple(greater),
    )
    conditions = [value for value in equal.values() if value is not None]
    return shape, [*values.values(), *conditions, *greater.values()]


def _check_comparable(table: Table, values: Mapping[str, Value]) -> None:
    check_named(table, values)
    if None in values.values():
        raise ValueError(f"nothing in {table.name} comes after NULL")


def _given(equal: Mapping[str, Value]) -> tuple[str, ...]:
    return tuple(name for name, value in equal.items() if value is not None)


def _null(equal: Mapping[str, Value]) -> tuple[str, ...]:
    return tuple(name for name, value in equal.items() if value is None)
