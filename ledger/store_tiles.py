"""The tree of a log as its store keeps it, in one snapshot."""

from __future__ import annotations

from ledger.core.merkle import HASH_LENGTH, Frontier
from ledger.core.proving import Node
from ledger.core.tiles import TILE_WIDTH, TileNodes
from ledger.store.interface import Reading
from ledger.store.rows import blob
from ledger.store.tables import ENTRIES, TILES


class TileGone(LookupError):
    """A tile that an append had written is not there."""


class StoreTiles:
    """Tiles of a log's tree; see `ledger.core.tiles.TileReader`. None of them is trusted."""

    def __init__(self, reading: Reading, *, log: int) -> None:
        self._reading = reading
        self._log = log

    def tile(self, *, level: int, index: int, width: int) -> bytes:
        """The first hashes of a tile; a partial one of level 0 is read from its entries."""
        if level == 0 and width < TILE_WIDTH:
            rows = self._reading.page(
                ENTRIES,
                equal={"log": self._log},
                order=("idx",),
                after=(index * TILE_WIDTH - 1,),
                limit=width,
            )
            hashes = b"".join(blob(row[6]) for row in rows)
        else:
            tiles = self._reading.get(TILES, [(self._log, level, index)])
            hashes = blob(tiles[0][3])[: width * HASH_LENGTH] if tiles else b""
        if len(hashes) != width * HASH_LENGTH:
            raise TileGone(f"tile {level}/{index} is not stored with {width} hashes")
        return hashes


def stored_frontier(nodes: TileNodes, *, size: int) -> Frontier:
    """The frontier of the tree's first `size` leaves, as stored. Its root says whether to believe
    it."""
    peaks: list[Node] = []
    begin = 0
    for height in reversed(range(size.bit_length())):
        if size >> height & 1:
            peaks.append(Node(height, begin >> height))
            begin += 1 << height
    return Frontier(size, tuple(nodes(peaks)))
