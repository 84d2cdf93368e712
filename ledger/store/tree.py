"""Reads from the store what the tree needs to grow."""

from __future__ import annotations

from typing import Final, cast

from ledger.core.errors import InvariantViolation
from ledger.core.tiles import TILE_WIDTH, TileId, tile_width, tiles_to_read
from ledger.store.interface import Reading
from ledger.store.tables import ENTRIES, TILES

_LEAF: Final = ENTRIES.names.index("leaf")
_HASHES: Final = TILES.names.index("hashes")


def read_open_tiles(reading: Reading, *, log: int, size: int, added: int) -> dict[TileId, bytes]:
    """The partial tiles that `ledger.core.tiles.grow` needs to add leaves to a tree of `size`.

    Level 0 is gathered from the entries' leaf hashes, higher levels come from their rows. Raises
    `InvariantViolation` where the store holds less than the tree of that size."""
    tiles: dict[TileId, bytes] = {}
    for tile_id in tiles_to_read(size=size, added=added):
        width = tile_width(tile_id, size=size)
        if tile_id.level == 0:
            tiles[tile_id] = _leaves(
                reading, log=log, first=tile_id.index * TILE_WIDTH, count=width
            )
        else:
            tiles[tile_id] = _tile(reading, log=log, tile_id=tile_id)
    return tiles


def _leaves(reading: Reading, *, log: int, first: int, count: int) -> bytes:
    rows = reading.page(
        ENTRIES, equal={"log": log}, order=("idx",), greater={"idx": first - 1}, limit=count
    )
    return b"".join(cast(bytes, row[_LEAF]) for row in rows)


def _tile(reading: Reading, *, log: int, tile_id: TileId) -> bytes:
    rows = reading.get(TILES, [(log, tile_id.level, tile_id.index)])
    if not rows:
        raise InvariantViolation(f"{tile_id} of log {log} is not stored")
    return cast(bytes, rows[0][_HASHES])
