"""Small logs, signed and broken in one place each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ledger.core.checkpoint import Checkpoint, sign_checkpoint
from ledger.core.ids import Origin
from ledger.core.merkle import EMPTY_FRONTIER, leaf_hash
from ledger.core.note_key import Signer
from ledger.core.proving import Node, inclusion_proof
from ledger.core.receipt import Receipt, format_receipt
from ledger.core.tile_files import encode_bundle, entries_path, tile_path
from ledger.core.tiles import TILE_WIDTH, subtree_root, tiles_of
from ledger.verify import EntriesSource, Policy, Report, verify_log
from tests.support.logs import ORIGIN, entries_of, events

SIGNER = Signer.of(name=ORIGIN, seed=bytes(32))
POLICY = Policy((SIGNER.key,))
ENTRIES = entries_of(events(runs=4, steps=3))
SIZE = len(ENTRIES)


def root(entries: Sequence[bytes]) -> bytes:
    return EMPTY_FRONTIER.extend([leaf_hash(entry) for entry in entries]).root()


def note(entries: Sequence[bytes], *, signer: Signer = SIGNER, origin: str = ORIGIN) -> bytes:
    """A checkpoint of exactly these entries."""
    return sign_checkpoint(Checkpoint(origin, len(entries), root(entries)), [signer])


def receipt(entries: Sequence[bytes], index: int) -> bytes:
    leaves = [leaf_hash(entry) for entry in entries]

    def read(nodes: Sequence[Node]) -> list[bytes]:
        return [
            EMPTY_FRONTIER.extend(leaves[n.index << n.height : (n.index + 1) << n.height]).root()
            for n in nodes
        ]

    proof = tuple(inclusion_proof(index, len(entries), read))
    return format_receipt(Receipt(entries[index], index, proof, note(entries)))


def verified(
    entries: Sequence[bytes],
    checkpoint: bytes | None = None,
    *,
    policy: Policy | None = POLICY,
    held: Sequence[bytes] = (),
    receipts: Sequence[bytes] = (),
    at_least: int | None = None,
) -> Report:
    """What is said of entries under a checkpoint, their own if none is given."""
    source = EntriesSource(note(entries) if checkpoint is None else checkpoint, entries)
    return verify_log(source, policy=policy, held=held, receipts=receipts, at_least=at_least)


def write_folder(folder: Path, entries: Sequence[bytes], checkpoint: bytes) -> None:
    """The tlog-tiles folder of entries, written by the formats' words alone."""
    levels = [[leaf_hash(entry) for entry in entries]]
    for place, width in tiles_of(len(entries)):
        while len(levels) <= place.level:
            below = levels[-1]
            full = range(0, len(below) // TILE_WIDTH * TILE_WIDTH, TILE_WIDTH)
            levels.append([subtree_root(b"".join(below[at : at + TILE_WIDTH])) for at in full])
        start = place.index * TILE_WIDTH
        hashes = b"".join(levels[place.level][start : start + width])
        _write(folder / tile_path(level=place.level, index=place.index, width=width), hashes)
        if place.level == 0:
            name = entries_path(index=place.index, width=width)
            _write(folder / name, encode_bundle(entries[start : start + width]))
    _write(folder / "checkpoint", checkpoint)


def another_origin(entries_count: int) -> list[bytes]:
    """A log of the same events under another origin."""
    return entries_of(events(runs=4, steps=3), origin=Origin("ledger.test/two"))[:entries_count]


def _write(path: Path, octets: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(octets)
