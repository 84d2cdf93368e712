"""Tiles as an append writes them and as proofs read them, against the naive tree."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.core.errors import InvariantViolation
from ledger.core.merkle import EMPTY_FRONTIER
from ledger.core.proof_check import verify_consistency, verify_inclusion
from ledger.core.proving import consistency_proof, inclusion_proof
from ledger.core.tiles import (
    TILE_WIDTH,
    TileId,
    TileNodes,
    grow,
    subtree_root,
    tile_width,
    tiles_of,
    tiles_to_read,
)
from tests.unit.core import trees

LARGE = 66_000 + 300


def _grow_by(stored: trees.StoredTiles, count: int) -> None:
    """One append of numbered leaves, as a store would do it."""
    size = len(stored.leaves)
    leaves = [trees.leaf(size + place) for place in range(count)]
    needed = tiles_to_read(size=size, added=count)
    open_tiles = {
        tile_id: stored.tile(
            level=tile_id.level, index=tile_id.index, width=tile_width(tile_id, size=size)
        )
        for tile_id in needed
    }
    growth = grow(stored.frontier, leaves, open_tiles)
    for tile in growth.tiles:
        stored.write(tile)
    stored.leaves += leaves
    stored.frontier = growth.frontier


def _expected_tiles(size: int) -> dict[TileId, bytes]:
    """The tiles that a store keeps of a tree of this size, from the definition in tlog-tiles."""
    expected: dict[TileId, bytes] = {}
    for tile_id, width in tiles_of(size):
        if tile_id.level == 0 and width < TILE_WIDTH:
            continue
        span = TILE_WIDTH**tile_id.level
        first = tile_id.index * TILE_WIDTH
        expected[tile_id] = b"".join(
            trees.root(place * span, (place + 1) * span) for place in range(first, first + width)
        )
    return expected


@pytest.fixture(scope="module")
def large() -> trees.StoredTiles:
    stored = trees.StoredTiles()
    batches = random.Random(7)
    while len(stored.leaves) < LARGE:
        count = batches.choice([1, 2, 17, 255, 256, 257, 1000, 4096])
        _grow_by(stored, min(count, LARGE - len(stored.leaves)))
    return stored


@given(st.lists(st.sampled_from([0, 1, 2, 100, 255, 256, 257, 511, 512, 513, 700]), max_size=8))
@settings(max_examples=60, deadline=None)
def test_appends_of_any_sizes_store_the_tiles_of_the_specification(batches: list[int]) -> None:
    stored = trees.StoredTiles()
    for count in batches:
        _grow_by(stored, count)
    assert stored.tiles == _expected_tiles(sum(batches))


def test_a_large_tree_has_the_tiles_of_the_specification(large: trees.StoredTiles) -> None:
    assert large.tiles == _expected_tiles(LARGE)
    assert TileId(2, 0) in large.tiles


def test_seventy_thousand_leaves_have_the_tiles_that_the_specification_counts() -> None:
    widths = list(tiles_of(70_000))
    full = [tile_id for tile_id, width in widths if width == TILE_WIDTH]
    partial = {tile_id: width for tile_id, width in widths if width < TILE_WIDTH}
    assert [sum(tile.level == level for tile in full) for level in range(3)] == [273, 1, 0]
    assert partial == {TileId(0, 273): 112, TileId(1, 1): 17, TileId(2, 0): 1}
    assert list(tiles_of(256)) == [(TileId(0, 0), 256), (TileId(1, 0), 1)]
    assert list(tiles_of(0)) == []


def test_sampled_inclusion_proofs_of_a_large_tree_hold_at_every_size(
    large: trees.StoredTiles,
) -> None:
    sample = random.Random(11)
    sizes = [1, 2, 255, 256, 257, 65_535, 65_536, 65_537, LARGE]
    sizes += [sample.randrange(1, LARGE) for _ in range(60)]
    for size in sizes:
        root = trees.root(0, size)
        for index in {0, size - 1, sample.randrange(size), sample.randrange(size)}:
            large.reads = 0
            proof = inclusion_proof(index, size, TileNodes(large, size=size))
            assert proof == trees.path(index, 0, size)
            assert large.reads <= 6
            verify_inclusion(leaf=trees.leaf(index), index=index, size=size, proof=proof, root=root)


def test_sampled_consistency_proofs_of_a_large_tree_hold(large: trees.StoredTiles) -> None:
    sample = random.Random(13)
    pairs = [(1, LARGE), (256, 65_536), (65_536, LARGE), (255, 257), (LARGE - 1, LARGE)]
    for _ in range(120):
        new = sample.randrange(1, LARGE)
        pairs.append((sample.randrange(1, new + 1), new))
    for old, new in pairs:
        large.reads = 0
        proof = consistency_proof(old, new, TileNodes(large, size=new))
        assert proof == (trees.subproof(old, 0, new) if old < new else [])
        assert large.reads <= 6
        verify_consistency(
            old_size=old,
            new_size=new,
            old_root=trees.root(0, old),
            new_root=trees.root(0, new),
            proof=proof,
        )


def test_an_append_that_completes_no_tile_reads_and_writes_none() -> None:
    frontier = EMPTY_FRONTIER.extend(trees.leaf(number) for number in range(100))
    assert tiles_to_read(size=100, added=155) == ()
    assert grow(frontier, [trees.leaf(100)] * 155, {}).tiles == ()
    assert tiles_to_read(size=100, added=156) == (TileId(0, 0),)


def test_an_append_without_the_open_tile_it_needs_is_our_own_mistake() -> None:
    frontier = EMPTY_FRONTIER.extend(trees.leaf(number) for number in range(255))
    right = b"".join(trees.leaf(number) for number in range(255))
    assert len(grow(frontier, [trees.leaf(255)], {TileId(0, 0): right}).tiles) == 2
    for wrong in ({}, {TileId(0, 0): right[:-32]}, {TileId(0, 0): right + bytes(32)}):
        with pytest.raises(InvariantViolation, match="needed with 255 hashes"):
            grow(frontier, [trees.leaf(255)], wrong)


def test_a_reader_that_answers_short_is_found() -> None:
    class Short:
        def tile(self, *, level: int, index: int, width: int) -> bytes:
            return bytes(32 * (width - 1))

    with pytest.raises(InvariantViolation, match="wrong length"):
        inclusion_proof(3, 10, TileNodes(Short(), size=10))


def test_the_root_of_a_tile_is_the_root_of_its_leaves() -> None:
    hashes = b"".join(trees.leaf(number) for number in range(256))
    assert subtree_root(hashes) == trees.root(0, 256)
    assert subtree_root(hashes[:32]) == trees.leaf(0)
    for length in (0, 31, 96, 2 * len(hashes)):
        with pytest.raises(InvariantViolation, match="complete subtree"):
            subtree_root((hashes * 2)[:length])
