"""A naive tree to compare with: RFC 6962's own recursive definitions, written out."""

from __future__ import annotations

import hashlib
from functools import cache

from ledger.core.merkle import EMPTY_FRONTIER
from ledger.core.tiles import TILE_WIDTH, Tile, TileId


def leaf(number: int) -> bytes:
    """The leaf hash of a numbered entry."""
    return hashlib.sha256(b"\x00" + number.to_bytes(8, "big")).digest()


@cache
def root(begin: int, end: int) -> bytes:
    """MTH(D[begin:end]) over numbered leaves (RFC 6962, section 2.1)."""
    if begin == end:
        return hashlib.sha256(b"").digest()
    if end - begin == 1:
        return leaf(begin)
    split = _split(end - begin)
    left, right = root(begin, begin + split), root(begin + split, end)
    return hashlib.sha256(b"\x01" + left + right).digest()


def path(index: int, begin: int, end: int) -> list[bytes]:
    """PATH(m, D[n]) (RFC 6962, section 2.1.1)."""
    if end - begin == 1:
        return []
    middle = begin + _split(end - begin)
    if index < middle:
        return [*path(index, begin, middle), root(middle, end)]
    return [*path(index, middle, end), root(begin, middle)]


def subproof(old: int, begin: int, end: int, *, whole: bool = True) -> list[bytes]:
    """SUBPROOF(m, D[n], b) (RFC 6962, section 2.1.2)."""
    if old == end - begin:
        return [] if whole else [root(begin, end)]
    split = _split(end - begin)
    middle = begin + split
    if old <= split:
        return [*subproof(old, begin, middle, whole=whole), root(middle, end)]
    return [*subproof(old - split, middle, end, whole=False), root(begin, middle)]


def _split(count: int) -> int:
    split = 1
    while split * 2 < count:
        split *= 2
    return split


class StoredTiles:
    """What a store keeps: leaf hashes beside the entries, and the tiles that appends wrote.

    A level-0 tile is answered from the leaves only while it is not full, so a proof shows whether
    the stored tiles are right.
    """

    def __init__(self) -> None:
        self.leaves: list[bytes] = []
        self.tiles: dict[TileId, bytes] = {}
        self.frontier = EMPTY_FRONTIER
        self.reads = 0

    def write(self, tile: Tile) -> None:
        """Keep a tile in place of what stood there, which it must extend."""
        assert tile.hashes.startswith(self.tiles.get(tile.id, b""))
        self.tiles[tile.id] = tile.hashes

    def tile(self, *, level: int, index: int, width: int) -> bytes:
        """The first `width` hashes of a tile."""
        self.reads += 1
        if level == 0 and width < TILE_WIDTH:
            begin = index * TILE_WIDTH
            return b"".join(self.leaves[begin : begin + width])
        return self.tiles[TileId(level, index)][: width * 32]
