"""An exported log: a folder of C2SP tlog-tiles, read as a source for verification.

`checkpoint`, `tile/<level>/<index>` and `tile/entries/<index>`, partial ones with `.p/<width>`.
Only entries and checkpoint are needed; the tiles of tree hashes are compared with what the entries
make, so that who reads them later reads what was verified.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ledger.core.errors import Malformed
from ledger.core.merkle import HASH_LENGTH
from ledger.core.tile_files import decode_bundle, entries_path, parse_path, tile_path
from ledger.core.tiles import (
    TILE_HEIGHT,
    TILE_LENGTH,
    TILE_WIDTH,
    TileId,
    subtree_root,
    tile_width,
)
from ledger.verify.log import SourceBroken
from ledger.verify.report import Code, Findings

_BUNDLE_LENGTH_MAX: Final = TILE_WIDTH * (2 + 0xFFFF)
_NOTE_LENGTH_MAX: Final = 1_000_000


class FolderSource:
    """See `ledger.verify.log.LogSource`. Reads one bundle at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._size = 0
        self._tree = _TileFiles(folder)

    def checkpoint(self) -> bytes | None:
        """The note in the folder; None where there is no such file."""
        path = self._folder / "checkpoint"
        try:
            return _read(path, length_max=_NOTE_LENGTH_MAX)
        except FileNotFoundError:
            return None

    def entries(self, *, size: int) -> Iterator[bytes]:
        """Entry by entry. Raises `SourceBroken` at a bundle that is missing or malformed."""
        self._size = size
        for index in range((size + TILE_WIDTH - 1) // TILE_WIDTH):
            width = tile_width(TileId(0, index), size=size)
            name = entries_path(index=index, width=width)
            try:
                octets = _read(self._folder / name, length_max=_BUNDLE_LENGTH_MAX)
                bundle = decode_bundle(octets, width=width)
            except FileNotFoundError:
                raise SourceBroken(f"{name} is missing") from None
            except Malformed as fault:
                raise SourceBroken(f"{name} is malformed: {fault}") from None
            yield from bundle

    def leaf(self, leaf: bytes) -> None:
        """Takes the next leaf hash."""
        self._tree.add(leaf)

    def end(self, findings: Findings) -> Sequence[str]:
        """Compares the tiles that were still growing, and looks for files that say nothing."""
        self._tree.finish()
        for name, text, index in self._tree.faults:
            findings.add(Code.TILE_DIFFERS, index, f"{name} {text}")
        beside = self._beside()
        if not beside:
            return ()
        return (f"what {beside:,} other files in the folder say: they are not of this log's tree",)

    def _beside(self) -> int:
        count = 0
        for above, _, names in os.walk(self._folder):
            for name in names:
                place = (Path(above) / name).relative_to(self._folder).as_posix()
                if place != "checkpoint" and not self._belongs(place):
                    count += 1
        return count

    def _belongs(self, place: str) -> bool:
        try:
            path = parse_path(place)
        except Malformed:
            return False
        return path.width == tile_width(TileId(path.level or 0, path.index), size=self._size)


class _TileFiles:
    """Makes every tile from leaf hashes, and compares it with its file as soon as it is full."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._levels: list[bytearray] = [bytearray()]
        self._counts: list[int] = [0]
        self.faults: list[tuple[str, str, int]] = []

    def add(self, leaf: bytes) -> None:
        """Takes the next leaf hash."""
        level = 0
        while True:
            hashes = self._levels[level]
            hashes += leaf
            if len(hashes) < TILE_LENGTH:
                return
            full = bytes(hashes)
            hashes.clear()
            self._compare(level, full)
            leaf = subtree_root(full)
            level += 1
            if level == len(self._levels):
                self._levels.append(bytearray())
                self._counts.append(0)

    def finish(self) -> None:
        """Compares the partial tiles."""
        for level, hashes in enumerate(self._levels):
            if hashes:
                self._compare(level, bytes(hashes))

    def _compare(self, level: int, hashes: bytes) -> None:
        index = self._counts[level]
        self._counts[level] += 1
        name = tile_path(level=level, index=index, width=len(hashes) // HASH_LENGTH)
        first = index * TILE_WIDTH << TILE_HEIGHT * level
        try:
            found = _read(self._folder / name, length_max=TILE_LENGTH)
        except (FileNotFoundError, Malformed):
            self.faults.append((name, "is missing or too long", first))
            return
        if found != hashes:
            self.faults.append((name, "is not made of the entries", first))


def _read(path: Path, *, length_max: int) -> bytes:
    """A file's bytes. Raises `Malformed` beyond the length, FileNotFoundError, OSError."""
    try:
        with path.open("rb") as file:
            octets = file.read(length_max + 1)
    except (NotADirectoryError, IsADirectoryError):
        raise FileNotFoundError(path) from None
    if len(octets) > length_max:
        raise Malformed("$", f"is longer than {length_max:,} bytes")
    return octets
