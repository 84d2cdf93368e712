"""Writing a log as a folder of C2SP tlog-tiles (formats, section 5): what any mirror can read.

    checkpoint                       the signed note
    tile/<level>/<index>[.p/<width>] tree hashes
    tile/entries/<index>[.p/<width>] entry bundles

Equal logs and checkpoints give equal bytes. Tree hashes are made from the entries' bytes, not read
from the store. Each file is written whole or not at all, and `checkpoint` last: a folder without it
is an export that was cut off, and passes for nothing.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ledger.core.checkpoint import parse_checkpoint_text
from ledger.core.log import Log
from ledger.core.merkle import EMPTY_FRONTIER, leaf_hash
from ledger.core.note import parse_note
from ledger.core.tile_files import encode_bundle, entries_path, tile_path
from ledger.core.tiles import TILE_WIDTH, Tile, TileId, grow, tile_width
from ledger.keyring import sync_folder
from ledger.store.interface import Reading, Store
from ledger.store.rows import blob, number
from ledger.store.tables import ENTRIES
from ledger.views import PublishedCheckpoint

CHECKPOINT: Final = "checkpoint"
_INDEX: Final = ENTRIES.names.index("idx")
_ENTRY: Final = ENTRIES.names.index("entry")


class ExportRefused(RuntimeError):
    """Nothing passes for an export: says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    origin: str
    size: int
    root: bytes
    files: int
    bytes_written: int


def export_log(
    store: Store,
    log: Log,
    folder: Path,
    *,
    checkpoint: PublishedCheckpoint,
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Writes the log up to the checkpoint's size into an empty or new folder, durably.

    Reads in one snapshot, a bundle at a time. `progress` is called with (entries done, in all).
    Raises `ExportRefused` where the folder holds something, or where the entries are not the tree
    that the checkpoint signs; OSError; and what the store raises.
    """
    signed = parse_checkpoint_text(parse_note(checkpoint.note).text)
    if folder.exists() and any(folder.iterdir()):
        raise ExportRefused(f"{folder} is not empty. Nothing was written. Name a new folder.")
    files = _Files(folder)
    frontier = EMPTY_FRONTIER
    open_tiles: dict[TileId, Tile] = {}
    with store.read() as reading:
        for index, entries in enumerate(_bundles(reading, log, size=signed.size)):
            files.write(entries_path(index=index, width=len(entries)), encode_bundle(entries))
            leaves = [leaf_hash(entry) for entry in entries]
            growth = grow(
                frontier, leaves, {tile_id: tile.hashes for tile_id, tile in open_tiles.items()}
            )
            frontier = growth.frontier
            _write_full(files, growth.tiles, open_tiles)
            if len(entries) < TILE_WIDTH:
                open_tiles[TileId(0, index)] = Tile(TileId(0, index), b"".join(leaves))
            if progress is not None:
                progress(frontier.size, signed.size)
    if frontier.size != signed.size or frontier.root() != signed.root:
        raise ExportRefused(
            f"The log's {frontier.size:,} entries are not the tree that its checkpoint of size "
            f"{signed.size:,} signs, so no checkpoint was written: {folder} passes for nothing. "
            "Run `ledger verify` on the server to see where they differ."
        )
    for tile in open_tiles.values():
        files.write_tile(tile)
    files.write(CHECKPOINT, checkpoint.note)
    return Exported(signed.origin, signed.size, signed.root, files.count, files.bytes_written)


def _write_full(files: _Files, tiles: tuple[Tile, ...], open_tiles: dict[TileId, Tile]) -> None:
    """Writes the tiles that are full; the others wait until they are, or until the end."""
    for tile in tiles:
        if tile.width == TILE_WIDTH:
            files.write_tile(tile)
            open_tiles.pop(tile.id, None)
        else:
            open_tiles[tile.id] = tile


def _bundles(reading: Reading, log: Log, *, size: int) -> Iterator[list[bytes]]:
    start = 0
    while start < size:
        width = tile_width(TileId(0, start // TILE_WIDTH), size=size)
        rows = reading.page(
            ENTRIES,
            equal={"log": log.number},
            order=("idx",),
            after=(start - 1,),
            limit=width,
        )
        if [number(row[_INDEX]) for row in rows] != [*range(start, start + width)]:
            raise ExportRefused(
                f"Entries between {start:,} and {start + width - 1:,} are missing, so no "
                "checkpoint was written. Run `ledger verify` on the server."
            )
        yield [blob(row[_ENTRY]) for row in rows]
        start += width


class _Files:
    """The folder's files, each durable and whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: set[Path] = set()
        self.count = 0
        self.bytes_written = 0

    def write_tile(self, tile: Tile) -> None:
        """Writes a tile of tree hashes under its name."""
        name = tile_path(level=tile.id.level, index=tile.id.index, width=tile.width)
        self.write(name, tile.hashes)

    def write(self, name: str, octets: bytes) -> None:
        """Writes a file under its name below the folder."""
        path = self._folder / name
        if path.parent not in self._made:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(path.parent)
        beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        with beside.open("xb") as file:
            file.write(octets)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        if name == CHECKPOINT:
            self._sync_folders()
        self.count += 1
        self.bytes_written += len(octets)

    def _sync_folders(self) -> None:
        """Makes every name durable, deepest first, the checkpoint's at last."""
        folders = {self._folder}
        for made in self._made:
            folders.update(above for above in made.parents if above.is_relative_to(self._folder))
            folders.add(made)
        for folder in sorted(folders, key=lambda one: len(one.parts), reverse=True):
            sync_folder(folder)
