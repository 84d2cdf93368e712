"""What a signer looks at before it signs: that the committed log continues what was signed.

Stored hashes are conveniences (formats, section 1), so the tree above the last signed size is made
anew from the entries' bytes: a bit that flipped between append and signing is found here, while it
can still be repaired. The work is that of the entries not signed yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ledger.core.checkpoint import Checkpoint
from ledger.core.errors import Malformed
from ledger.core.log import Log
from ledger.core.merkle import EMPTY_FRONTIER, Frontier, leaf_hash
from ledger.core.proof_check import ProofInvalid, verify_consistency
from ledger.core.proving import consistency_proof
from ledger.core.tiles import (
    TILE_WIDTH,
    TileId,
    TileNodes,
    grow,
    tile_width,
    tiles_to_read,
)
from ledger.store.interface import Reading
from ledger.store.rows import blob, number
from ledger.store.tables import ENTRIES
from ledger.store_tiles import StoreTiles, TileGone, stored_frontier

_PAGE: Final = 4 * TILE_WIDTH
_INDEX: Final = ENTRIES.names.index("idx")
_ENTRY: Final = ENTRIES.names.index("entry")
_LEAF: Final = ENTRIES.names.index("leaf")


class HeadRefused(Exception):
    """The log does not continue the mark. `before_mark`: already what was signed is another.

    `index` is the first entry that differs, None where it is tiles or the head row.
    """

    def __init__(self, reason: str, *, before_mark: bool = False, index: int | None = None) -> None:
        super().__init__(reason)
        self.before_mark = before_mark
        self.index = index


def checked_head(reading: Reading, log: Log, mark: Checkpoint) -> Checkpoint:
    """The committed size and root, shown to continue the mark twice over: by the entries' bytes,
    and by a consistency proof from the stored tiles, which is what outsiders will be given.

    Raises `HeadRefused`. The log is at least as long as the mark.
    """
    head = reading.head(log.number)
    tiles = StoreTiles(reading, log=log.number)
    nodes = TileNodes(tiles, size=head.size)
    grown = _Grown(tiles, _signed_frontier(nodes, mark))
    for leaves in _leaves(reading, log, start=mark.size, size=head.size):
        grown.add(leaves)
    root = grown.frontier.root()
    if _head_root(head.frontier, head.size) != root:
        raise HeadRefused("the head row's tree is not the tree of the entries' bytes")
    try:
        proof = consistency_proof(mark.size, head.size, nodes)
        verify_consistency(
            old_size=mark.size, new_size=head.size, old_root=mark.root, new_root=root, proof=proof
        )
    except (ProofInvalid, TileGone) as fault:
        raise HeadRefused(f"the stored tiles prove nothing: {fault}") from None
    return Checkpoint(log.origin, head.size, root)


def root_at(reading: Reading, log: Log, *, size: int) -> bytes:
    """The root of the log's first `size` entries, from their bytes alone. Raises `HeadRefused`."""
    frontier = EMPTY_FRONTIER
    for leaves in _leaves(reading, log, start=0, size=size):
        frontier = frontier.extend(leaves)
    return frontier.root()


class _Grown:
    """The tree above the mark, made anew, and every tile that it completes or extends compared."""

    def __init__(self, tiles: StoreTiles, frontier: Frontier) -> None:
        self.frontier = frontier
        self._tiles = tiles
        self._open: dict[TileId, bytes] = {}

    def add(self, leaves: list[bytes]) -> None:
        size = self.frontier.size
        for tile_id in tiles_to_read(size=size, added=len(leaves)):
            if tile_id not in self._open:
                self._open[tile_id] = self._stored(tile_id, tile_width(tile_id, size=size))
        growth = grow(self.frontier, leaves, self._open)
        for tile in growth.tiles:
            if self._stored(tile.id, tile.width) != tile.hashes:
                raise HeadRefused(f"tile {tile.id.level}/{tile.id.index} is not the entries' tile")
        # Level 0 is aligned after the first page, so only tiles of higher levels stay open.
        self._open = {tile.id: tile.hashes for tile in growth.tiles}
        self.frontier = growth.frontier

    def _stored(self, tile_id: TileId, width: int) -> bytes:
        try:
            return self._tiles.tile(level=tile_id.level, index=tile_id.index, width=width)
        except TileGone as fault:
            raise HeadRefused(str(fault)) from None


def _signed_frontier(nodes: TileNodes, mark: Checkpoint) -> Frontier:
    """The tree at the mark's size: stored hashes, believed because they lead to the mark's root."""
    try:
        frontier = stored_frontier(nodes, size=mark.size)
    except TileGone as fault:
        raise HeadRefused(str(fault), before_mark=True) from None
    if frontier.root() != mark.root:
        raise HeadRefused("another root at the signed size", before_mark=True)
    return frontier


def _leaves(reading: Reading, log: Log, *, start: int, size: int) -> Iterator[list[bytes]]:
    while start < size:
        rows = reading.page(
            ENTRIES,
            equal={"log": log.number},
            order=("idx",),
            after=(start - 1,),
            limit=min(_PAGE - start % TILE_WIDTH, size - start),
        )
        leaves: list[bytes] = []
        for at, row in enumerate(rows, start):
            if number(row[_INDEX]) != at:
                raise HeadRefused(f"entry {at} is missing", index=at)
            leaf = leaf_hash(blob(row[_ENTRY]))
            if leaf != row[_LEAF]:
                raise HeadRefused(f"entry {at} does not hash to its stored leaf", index=at)
            leaves.append(leaf)
        if not leaves:
            raise HeadRefused(f"entry {start} is missing", index=start)
        yield leaves
        start += len(leaves)


def _head_root(frontier: bytes, size: int) -> bytes:
    try:
        read = Frontier.from_bytes(frontier)
    except Malformed:
        return b""
    return read.root() if read.size == size else b""
