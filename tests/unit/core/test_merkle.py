"""The frontier against the recursive definition of the tree."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.errors import Malformed
from ledger.core.merkle import EMPTY_FRONTIER, EMPTY_ROOT, Frontier, leaf_hash, node_hash
from tests.unit.core import trees


def test_leaves_and_nodes_are_hashed_apart() -> None:
    assert leaf_hash(b"x") == hashlib.sha256(b"\x00x").digest()
    assert (
        node_hash(b"a" * 32, b"b" * 32) == hashlib.sha256(b"\x01" + b"a" * 32 + b"b" * 32).digest()
    )
    assert EMPTY_FRONTIER.root() == EMPTY_ROOT == hashlib.sha256(b"").digest()


def test_appending_one_by_one_gives_the_root_of_every_size() -> None:
    frontier = EMPTY_FRONTIER
    for size in range(600):
        assert frontier.size == size
        assert frontier.root() == trees.root(0, size)
        assert len(frontier.peaks) == size.bit_count()
        frontier = frontier.append(trees.leaf(size))


@given(st.lists(st.integers(min_value=0, max_value=70), max_size=6))
def test_extending_in_batches_equals_appending(batches: list[int]) -> None:
    by_batch = one_by_one = EMPTY_FRONTIER
    for count in batches:
        leaves = [trees.leaf(by_batch.size + place) for place in range(count)]
        by_batch = by_batch.extend(leaves)
        for leaf in leaves:
            one_by_one = one_by_one.append(leaf)
    assert by_batch == one_by_one


def test_an_append_leaves_the_frontier_before_it_untouched() -> None:
    before = EMPTY_FRONTIER.extend(trees.leaf(number) for number in range(7))
    octets = before.to_bytes()
    before.append(trees.leaf(7))
    before.extend([trees.leaf(7), trees.leaf(8)])
    assert before.to_bytes() == octets


@given(st.integers(min_value=0, max_value=300))
def test_a_frontier_is_written_and_read_back(size: int) -> None:
    frontier = EMPTY_FRONTIER.extend(trees.leaf(number) for number in range(size))
    octets = frontier.to_bytes()
    assert len(octets) == 8 + 32 * size.bit_count()
    assert Frontier.from_bytes(octets) == frontier
    for broken in (octets[:-1], octets + b"\x00", octets + bytes(32), b""):
        with pytest.raises(Malformed):
            Frontier.from_bytes(broken)
