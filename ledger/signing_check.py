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
from ledger.core.tiles import TileNodes
from ledger.store.interface import Reading
from ledger.store.rows import blob, number
from ledger.store.tables import ENTRIES
from ledger.store_tiles import StoreTiles, TileGone, stored_frontier

_PAGE: Final = 1_000
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
    nodes = TileNodes(StoreTiles(reading, log=log.number), size=head.size)
    signed = _signed_frontier(nodes, mark)
    grown = _grown(reading, log, signed, size=head.size)
    if _head_root(head.frontier, head.size) != grown.root():
        raise HeadRefused("the head row's tree is not the tree of the entries' bytes")
    now = Checkpoint(log.origin, head.size, grown.root())
    try:
        proof = consistency_proof(mark.size, now.size, nodes)
        verify_consistency(
            old_size=mark.size,
            new_size=now.size,
            old_root=mark.root,
            new_root=now.root,
            proof=proof,
        )
    except (ProofInvalid, TileGone) as fault:
        raise HeadRefused(f"the stored tiles prove nothing: {fault}") from None
    return now


def root_at(reading: Reading, log: Log, *, size: int) -> bytes:
    """The root of the log's first `size` entries, from their bytes alone. Raises `HeadRefused`."""
    return _grown(reading, log, EMPTY_FRONTIER, size=size).root()


def _signed_frontier(nodes: TileNodes, mark: Checkpoint) -> Frontier:
    """The tree at the mark's size: stored hashes, believed because they lead to the mark's root."""
    try:
        frontier = stored_frontier(nodes, size=mark.size)
    except TileGone as fault:
        raise HeadRefused(str(fault), before_mark=True) from None
    if frontier.root() != mark.root:
        raise HeadRefused("another root at the signed size", before_mark=True)
    return frontier


def _grown(reading: Reading, log: Log, frontier: Frontier, *, size: int) -> Frontier:
    for leaves in _leaves(reading, log, start=frontier.size, size=size):
        frontier = frontier.extend(leaves)
    return frontier


def _leaves(reading: Reading, log: Log, *, start: int, size: int) -> Iterator[list[bytes]]:
    while start < size:
        rows = reading.page(
            ENTRIES,
            equal={"log": log.number},
            order=("idx",),
            after=(start - 1,),
            limit=min(_PAGE, size - start),
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
