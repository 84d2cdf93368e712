"""The demo's shop: it recognises nothing and counts everything."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.cli.demo.account import Effects
from ledger.cli.demo.actions import ActionId, action_id
from ledger.cli.demo.shop import Order, Shop
from ledger.client import EffectClass

ACTION = action_id("r", "refund", b"{}")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    opened = Shop(tmp_path / "shop.db")
    yield opened
    opened.close()


def _order(key: str, effect: EffectClass = EffectClass.NON_IDEMPOTENT_WRITE) -> Order:
    return Order("r", "refund", effect, b"{}", key, token=1)


def _perform(shop: Shop, order: Order) -> str:
    return shop.perform(order, before=lambda: None, after=lambda: None)


def test_a_repeated_key_is_done_again_and_counted(shop: Shop) -> None:
    first, second = _perform(shop, _order("k")), _perform(shop, _order("k"))
    assert first != second
    assert shop.happened() == Counter({ACTION: 2})
    assert shop.receipt("k") == first


def test_one_action_under_two_keys_counts_twice(shop: Shop) -> None:
    _perform(shop, _order("k1"))
    _perform(shop, _order("k2"))
    assert shop.happened() == Counter({ACTION: 2})


def test_an_idempotent_write_counts_once_for_each_key(shop: Shop) -> None:
    for key in ("k", "k", "l"):
        _perform(shop, _order(key, EffectClass.IDEMPOTENT_WRITE))
    assert shop.happened() == Counter({ACTION: 2})


def test_reads_have_no_effect(shop: Shop) -> None:
    _perform(shop, _order("", EffectClass.READ_ONLY))
    assert shop.happened() == Counter()


def test_a_key_that_never_came_has_no_receipt(shop: Shop) -> None:
    receipt = _perform(shop, _order("k"))
    assert shop.receipt("other") is None
    assert shop.has_receipt(receipt)
    assert not shop.has_receipt("SHOP-000099")


def test_the_effect_stands_between_before_and_after(shop: Shop) -> None:
    seen: list[int] = []

    def look() -> None:
        seen.append(shop.happened().total())

    shop.perform(_order("k"), before=look, after=look)
    assert seen == [0, 1]


DYING = """
import os, signal, sys
from pathlib import Path
from ledger.cli.demo.shop import Order, Shop
from ledger.client import EffectClass
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
shop = Shop(Path(sys.argv[1]))
order = Order("r", "refund", EffectClass.NON_IDEMPOTENT_WRITE, b"{}", "k", 1)
before, after = (die, lambda: None) if sys.argv[2] == "before" else (lambda: None, die)
shop.perform(order, before=before, after=after)
"""


@pytest.mark.parametrize(("where", "times"), [("before", 0), ("after", 1)])
def test_a_death_inside_the_tool_leaves_the_effect_whole_or_not_there(
    where: str, times: int, tmp_path: Path
) -> None:
    path = tmp_path / "shop.db"
    ended = subprocess.run([sys.executable, "-c", DYING, str(path), where], check=False)
    assert ended.returncode == -9
    shop = Shop(path)
    assert shop.happened()[ACTION] == times
    assert (shop.receipt("k") is not None) == bool(times)
    shop.close()
    assert os.path.exists(path)


@pytest.mark.parametrize(
    ("wanted", "happened", "expected"),
    [
        ({"a": 1, "b": 1}, {"a": 1, "b": 1}, Effects(2, 0, 0)),
        ({"a": 1, "b": 1}, {"a": 1}, Effects(1, 1, 0)),
        ({"a": 1, "b": 1}, {"a": 2, "b": 1}, Effects(1, 0, 1)),
        ({"a": 1}, {"a": 1, "c": 1}, Effects(1, 0, 1)),
        ({"a": 2}, {"a": 2}, Effects(2, 0, 0)),
        ({"a": 2}, {"a": 3}, Effects(1, 0, 1)),
        ({"a": 1}, {"a": 3}, Effects(0, 0, 2)),
    ],
)
def test_effects_are_counted_against_what_was_wanted(
    wanted: dict[str, int], happened: dict[str, int], expected: Effects
) -> None:
    def counted(counts: dict[str, int]) -> Counter[ActionId]:
        return Counter({ActionId(name): times for name, times in counts.items()})

    assert Effects.of(wanted=counted(wanted), happened=counted(happened)) == expected
