"""A log as a folder of files (C2SP tlog-tiles): written from a server's answers, and read back.

    checkpoint                 the signed note
    tile/entries/<index>       256 entries a file
    tile/<level>/<index>       the tree's hashes

Whatever reads tiles can mirror or check it. Nothing here verifies: `ledger verify` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ledger.client import Entry as LogEntry
from ledger.core.checkpoint import Checkpoint as SignedTree
from ledger.core.checkpoint import parse_checkpoint_text
from ledger.core.entry import Entry, read_entry
from ledger.core.errors import Malformed
from ledger.core.events import check_body
from ledger.core.ids import Origin
from ledger.core.merkle import EMPTY_FRONTIER, leaf_hash
from ledger.core.note import NoteInvalid, parse_note
from ledger.core.proving import inclusion_proof
from ledger.core.receipt import Receipt, format_receipt
from ledger.core.tile_files import decode_bundle, encode_bundle, entries_path, tile_path
from ledger.core.tiles import TILE_WIDTH, TileId, TileNodes, subtree_root, tile_width, tiles_of

CHECKPOINT: Final = "checkpoint"


class MirrorUnreadable(ValueError):
    """The folder is no log in tiles, or lacks a file; the message says which."""


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What was written: the log's origin, how many entries, and the checkpoint's note."""

    origin: str
    size: int
    note: str


def write_mirror(entries: Iterable[LogEntry], folder: Path, note: str) -> Mirrored:
    """Write a log's entries, in order, up to the size that the checkpoint `note` signs.

    The checkpoint is written last.

    A folder that was cut off half-way holds no checkpoint, so it passes for nothing. Raises
    `MirrorUnreadable` where the server's entries are not the tree that the checkpoint signs.
    """
    signed = _signed(note)
    hashes: list[bytes] = []
    bundle: list[bytes] = []
    for entry in entries:
        if entry.index >= signed.size:
            break
        hashes.append(leaf_hash(entry.entry))
        bundle.append(entry.entry)
        if len(bundle) == TILE_WIDTH:
            _write_bundle(folder, len(hashes), bundle)
    if bundle:
        _write_bundle(folder, len(hashes), bundle)
    frontier = EMPTY_FRONTIER.extend(hashes)
    if frontier.size != signed.size or frontier.root() != signed.root:
        raise MirrorUnreadable(
            f"the server's {frontier.size:,} entries are not the log that its checkpoint of size "
            f"{signed.size:,} signs"
        )
    _write_tiles(folder, hashes)
    _write(folder / CHECKPOINT, note.encode("utf-8"))
    return Mirrored(signed.origin, signed.size, note)


class Mirror:
    """A folder in tiles, read for its entries. What it says is not verified by reading it."""

    def __init__(self, folder: Path) -> None:
        """Raises `MirrorUnreadable` where there is no checkpoint to read."""
        self._folder = folder
        self.note = _text(folder / CHECKPOINT)
        signed = _signed(self.note)
        self.origin = signed.origin
        self.size = signed.size

    def raw_entries(self) -> Iterator[bytes]:
        """Every entry's bytes in order."""
        for index in range((self.size + TILE_WIDTH - 1) // TILE_WIDTH):
            width = tile_width(TileId(0, index), size=self.size)
            path = self._folder / entries_path(index=index, width=width)
            try:
                yield from decode_bundle(path.read_bytes(), width=width)
            except (OSError, Malformed) as fault:
                raise MirrorUnreadable(f"{path} cannot be read: {fault}") from None

    def entries(self) -> Iterator[Entry]:
        """Every entry in order, read strictly."""
        for index, raw in enumerate(self.raw_entries()):
            try:
                yield read_entry(
                    raw, origin=Origin(self.origin), index=index, check_body=check_body
                )
            except Malformed as fault:
                raise MirrorUnreadable(f"entry {index:,} is malformed: {fault}") from None

    def run_entries(self, run: str) -> list[Entry]:
        """The entries of one run, in order."""
        return [entry for entry in self.entries() if entry.run_id == run]

    def receipt(self, index: int) -> str:
        """The receipt of an entry under the folder's checkpoint, as C2SP tlog-proof text."""
        if not 0 <= index < self.size:
            raise MirrorUnreadable(f"there is no entry {index:,}: the log has {self.size:,}")
        raw = list(self.raw_entries())
        nodes = TileNodes(_Leaves([leaf_hash(entry) for entry in raw]), size=self.size)
        proof = tuple(inclusion_proof(index, self.size, nodes))
        receipt = Receipt(raw[index], index, proof, self.note.encode("utf-8"))
        return format_receipt(receipt).decode("utf-8")


class _Leaves:
    """Tiles computed from all leaf hashes; small logs only, which a folder on a desk is."""

    def __init__(self, hashes: list[bytes]) -> None:
        self._levels: list[list[bytes]] = [hashes]

    def tile(self, *, level: int, index: int, width: int) -> bytes:
        """The hashes of one tile."""
        while len(self._levels) <= level:
            below = self._levels[-1]
            full = len(below) // TILE_WIDTH
            self._levels.append(
                [
                    subtree_root(b"".join(below[n * TILE_WIDTH : (n + 1) * TILE_WIDTH]))
                    for n in range(full)
                ]
            )
        start = index * TILE_WIDTH
        return b"".join(self._levels[level][start : start + width])


def _write_tiles(folder: Path, hashes: list[bytes]) -> None:
    leaves = _Leaves(hashes)
    for place, width in tiles_of(len(hashes)):
        octets = leaves.tile(level=place.level, index=place.index, width=width)
        _write(folder / tile_path(level=place.level, index=place.index, width=width), octets)


def _write_bundle(folder: Path, count: int, bundle: list[bytes]) -> None:
    index = (count - 1) // TILE_WIDTH
    _write(folder / entries_path(index=index, width=len(bundle)), encode_bundle(bundle))
    bundle.clear()


def _write(path: Path, octets: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(octets)


def _signed(note: str) -> SignedTree:
    try:
        return parse_checkpoint_text(parse_note(note.encode("utf-8")).text)
    except (Malformed, NoteInvalid) as fault:
        raise MirrorUnreadable(f"there is no checkpoint in it: {fault}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise MirrorUnreadable(f"{path} cannot be read: {fault}") from None
