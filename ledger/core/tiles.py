"""The tree as tiles of height 8 (C2SP tlog-tiles): what an append stores, what a proof reads.

Tile `index` of level 0 holds leaf hashes 256*index onwards; each hash of a tile at level L+1 is
the root of one full tile at level L. In the store, a level-0 tile is kept only when it is full (the
rows of the entries keep their leaf hash before and after); a tile of a higher level is kept as it
grows, one hash for each full tile below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

from ledger.core.errors import InvariantViolation
from ledger.core.merkle import HASH_LENGTH, Frontier
from ledger.core.proving import Node

TILE_HEIGHT: Final = 8
TILE_WIDTH: Final = 256
TILE_LENGTH: Final = TILE_WIDTH * HASH_LENGTH


@dataclass(frozen=True, slots=True, order=True)
class TileId:
    """A tile's place: `level` 0 holds leaf hashes, `index` counts from 0 within the level."""

    level: int
    index: int


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile's place and its hashes, one after the other, 1 to 256 of them."""

    id: TileId
    hashes: bytes

    @property
    def width(self) -> int:
        """How many hashes it holds, 1 to 256."""
        return len(self.hashes) // HASH_LENGTH


class TileReader(Protocol):
    """Where tiles come from: a store within one transaction, or a folder of files."""

    def tile(self, *, level: int, index: int, width: int) -> bytes:
        """Exactly the first `width` hashes (1 to 256) of a tile, `width` * 32 bytes.

        Asked only for what a tree of the reader's size holds. For level 0 and a width below 256
        there is no stored tile: the leaf hashes of entries 256*index onwards are the answer. A
        reader that cannot answer raises an error of its own; it never answers short.
        """
        ...


@dataclass(frozen=True, slots=True)
class Growth:
    """What an append of some leaves makes of the tree.

    `tiles` are to be written with the entries, in the same transaction, each replacing what stands
    at its place: level-0 tiles that became full, and higher tiles with all their hashes so far.
    """

    frontier: Frontier
    tiles: tuple[Tile, ...]


def tile_width(tile_id: TileId, *, size: int) -> int:
    """How many hashes this tile holds in a tree of `size` leaves; 0 if it is not there yet."""
    complete = size >> (TILE_HEIGHT * tile_id.level)
    return max(0, min(TILE_WIDTH, complete - tile_id.index * TILE_WIDTH))


def tiles_of(size: int) -> Iterator[tuple[TileId, int]]:
    """Every tile of a tree of `size` leaves with its width, level by level, from left to right."""
    level = 0
    while size >> (TILE_HEIGHT * level):
        complete = size >> (TILE_HEIGHT * level)
        for index in range((complete + TILE_WIDTH - 1) // TILE_WIDTH):
            tile_id = TileId(level, index)
            yield tile_id, tile_width(tile_id, size=size)
        level += 1


def tiles_to_read(*, size: int, added: int) -> tuple[TileId, ...]:
    """The partial tiles of a tree of `size` that `grow` needs to add `added` leaves.

    None at all unless the append completes a level-0 tile, which one in 256 entries does; then at
    most one tile a level.
    """
    needed: list[TileId] = []
    level = 0
    after = size + added
    if size // TILE_WIDTH == after // TILE_WIDTH:
        return ()
    while size != after:
        if size % TILE_WIDTH:
            needed.append(TileId(level, size // TILE_WIDTH))
        size //= TILE_WIDTH
        after //= TILE_WIDTH
        level += 1
    return tuple(needed)


def grow(frontier: Frontier, leaves: Sequence[bytes], open_tiles: Mapping[TileId, bytes]) -> Growth:
    """Add leaf hashes in order; say what the frontier and the stored tiles become.

    `open_tiles` holds the partial tiles that `tiles_to_read` names, with exactly the hashes they
    have in the tree before. Raises `InvariantViolation` where one is missing or has another width:
    writing on would store a tile that no proof can be made from.
    """
    size = frontier.size
    after = frontier.extend(leaves)
    if size // TILE_WIDTH == after.size // TILE_WIDTH:
        return Growth(after, ())
    written: list[Tile] = []
    level = 0
    rising: Sequence[bytes] = leaves
    while rising:
        rising = _grow_level(level, size >> (TILE_HEIGHT * level), rising, open_tiles, written)
        level += 1
    return Growth(after, tuple(written))


def _grow_level(
    level: int,
    before: int,
    added: Sequence[bytes],
    open_tiles: Mapping[TileId, bytes],
    written: list[Tile],
) -> list[bytes]:
    """Add hashes to one level, append what is to be stored, give the hashes for the next level."""
    index, width = divmod(before, TILE_WIDTH)
    stays_open = width + len(added) < TILE_WIDTH
    if level == 0 and stays_open:
        return []
    hashes = _open_tile(TileId(level, index), width, open_tiles) + b"".join(added)
    full_roots: list[bytes] = []
    for start in range(0, len(hashes), TILE_LENGTH):
        chunk = hashes[start : start + TILE_LENGTH]
        if len(chunk) == TILE_LENGTH:
            full_roots.append(subtree_root(chunk))
        elif level == 0:
            break
        written.append(Tile(TileId(level, index), chunk))
        index += 1
    return full_roots


def _open_tile(tile_id: TileId, width: int, open_tiles: Mapping[TileId, bytes]) -> bytes:
    if width == 0:
        return b""
    hashes = open_tiles.get(tile_id)
    if hashes is None or len(hashes) != width * HASH_LENGTH:
        raise InvariantViolation(f"tile {tile_id} is needed with {width} hashes")
    return hashes


def subtree_root(hashes: bytes) -> bytes:
    """The root over 1, 2, 4, ... 256 hashes that stand one after the other.

    Raises `InvariantViolation` for any other number of them.
    """
    count, rest = divmod(len(hashes), HASH_LENGTH)
    if rest or count.bit_count() != 1 or count > TILE_WIDTH:
        raise InvariantViolation("a complete subtree has 1, 2, 4, ... 256 hashes")
    # Two neighbours already stand side by side, as RFC 6962 hashes them.
    pair = 2 * HASH_LENGTH
    while len(hashes) > HASH_LENGTH:
        starts = range(0, len(hashes), pair)
        hashes = b"".join(
            [sha256(b"\x01" + hashes[start : start + pair]).digest() for start in starts]
        )
    return hashes


class TileNodes:
    """Reads nodes of a tree of fixed `size` through its tiles, each tile once.

    The `read` that `ledger.core.proving` asks for: a proof costs O(log size) tile reads.
    """

    def __init__(self, reader: TileReader, *, size: int) -> None:
        self._reader = reader
        self._size = size
        self._tiles: dict[TileId, bytes] = {}

    def __call__(self, nodes: Sequence[Node]) -> list[bytes]:
        """The hashes of these complete subtrees, in the order asked for."""
        return [self._hash(node) for node in nodes]

    def _hash(self, node: Node) -> bytes:
        level, rise = divmod(node.height, TILE_HEIGHT)
        index, offset = divmod(node.index << rise, TILE_WIDTH)
        hashes = self._tile(TileId(level, index))
        span = hashes[offset * HASH_LENGTH : (offset + (1 << rise)) * HASH_LENGTH]
        if len(span) != HASH_LENGTH << rise:
            raise InvariantViolation(f"{node} is not a complete subtree at size {self._size}")
        return subtree_root(span)

    def _tile(self, tile_id: TileId) -> bytes:
        hashes = self._tiles.get(tile_id)
        if hashes is None:
            width = tile_width(tile_id, size=self._size)
            hashes = self._reader.tile(level=tile_id.level, index=tile_id.index, width=width)
            if len(hashes) != width * HASH_LENGTH:
                raise InvariantViolation(f"the reader answered {tile_id} with a wrong length")
            self._tiles[tile_id] = hashes
        return hashes
