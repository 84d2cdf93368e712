"""Values that one database would take and the other not are refused by both, before anything is
written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ledger.store.interface import Changing, Store
from ledger.store.tables import DATA_KEYS, RUNS, SUBJECTS, Row, Value
from tests.support.rows import count, row

BAD: dict[str, tuple[str, Value | float | bytearray | list[int]]] = {
    "a NUL in text": ("run", "a\x00b"),
    "a NUL at the end": ("run", "a\x00"),
    "a lone surrogate": ("run", "\ud800"),
    "a lone surrogate among others": ("run", "ä\udfff\U0001f600"),
    "bytes as text": ("run", b"run"),
    "a number as text": ("run", 1),
    "text as bytes": ("fold", "fold"),
    "a bytearray": ("fold", bytearray(b"x")),
    "text as a number": ("version", "1"),
    "a float": ("version", 1.0),
    "a bool": ("version", True),
    "past 64 bits": ("version", 2**63),
    "below 64 bits": ("version", -(2**63) - 1),
    "a list": ("version", [1]),
    "no value": ("version", None),
}


def _insert_after_another(changing: Changing, bad: Row) -> None:
    changing.insert(SUBJECTS, [row(SUBJECTS, 1)])
    changing.insert(RUNS, [bad])


Way = Callable[[Changing, Row], object]
WAYS: dict[str, Way] = {
    "insert": lambda changing, bad: changing.insert(RUNS, [row(RUNS, 1), bad]),
    "insert after another": _insert_after_another,
    "upsert": lambda changing, bad: changing.upsert(RUNS, [row(RUNS, 1), bad]),
    "update": lambda changing, bad: changing.update(
        RUNS, dict(zip(RUNS.names, bad, strict=True)), equal={"run": "x"}
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("column", "value"), BAD.values(), ids=BAD)
def test_a_bad_value_is_refused_by_every_write(
    store: Store, column: str, value: Value, way: Way
) -> None:
    bad = row(RUNS, 2, **{column: value})
    with pytest.raises(ValueError, match=f"column {column} "), store.change() as changing:
        way(changing, bad)
    assert count(store, RUNS) == 0
    assert count(store, SUBJECTS) == 0


@pytest.mark.parametrize("bad", ["a\x00", "\udc00", 5, None, b"x"], ids=repr)
def test_a_bad_key_is_refused_by_every_read(store: Store, bad: Value) -> None:
    with store.read() as reading:
        with pytest.raises(ValueError):
            reading.get(RUNS, [("t", bad)])
        with pytest.raises(ValueError):
            reading.get_by(RUNS, ("run",), [(bad,)])
        with pytest.raises(ValueError):
            reading.page(RUNS, equal={"tenant": "t"}, order=["run"], after=(bad,), limit=1)
        with pytest.raises(ValueError):
            reading.page(RUNS, equal={}, greater={"run": bad}, order=["run"], limit=1)
        assert reading.get(RUNS, [("t", "r")]) == []


@pytest.mark.parametrize("short", [("t",), ("t", "r", "s", "u"), ()], ids=len)
def test_a_row_of_another_length_is_refused(store: Store, short: Row) -> None:
    with pytest.raises(ValueError, match="values"), store.change() as changing:
        changing.insert(SUBJECTS, [short])
    with pytest.raises(ValueError, match="values"), store.change() as changing:
        changing.delete(SUBJECTS, [short])
    assert count(store, SUBJECTS) == 0


def test_the_ends_of_every_kind_are_kept(store: Store) -> None:
    rows = [
        row(RUNS, 1, idx=-(2**63), changed_us=2**63 - 1, status="", fold=b""),
        row(RUNS, 2, status="\U0010ffff\uffff\x01\x7f'\"\\%s$1{}", fold=bytes(range(256))),
        row(RUNS, 3, status=" \t\r\n ", fold=b"\x00"),
    ]
    with store.change() as changing:
        changing.insert(RUNS, rows)
        changing.insert(DATA_KEYS, [row(DATA_KEYS, 1, destroyed_idx=None)])
    with store.read() as reading:
        assert reading.page(RUNS, equal={}, order=RUNS.key, limit=9) == rows


def test_a_refusal_does_not_show_the_value(store: Store) -> None:
    with pytest.raises(ValueError) as caught, store.change() as changing:
        changing.insert(SUBJECTS, [("t", "r", "secret\x00")])
    assert "secret" not in str(caught.value)
