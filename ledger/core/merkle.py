"""The RFC 6962 Merkle tree: hashes, and the frontier that an append extends.

The leaf hash of an entry is SHA-256(0x00 || entry), a node is SHA-256(0x01 || left || right), and
the root of the empty tree is SHA-256 of nothing (RFC 6962, section 2.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from ledger.core.errors import Malformed

HASH_LENGTH: Final = 32
EMPTY_ROOT: Final = sha256(b"").digest()
SIZE_MAX: Final = 2**53 - 1


def leaf_hash(entry: bytes) -> bytes:
    """SHA-256(0x00 || entry)."""
    return sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 || left || right)."""
    return sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, slots=True)
class Frontier:
    """A tree of `size` leaves, remembered by the roots of its perfect subtrees only.

    `peaks` run from left to right, one for each bit set in `size`, so at most 53 hashes stand for a
    tree of any size. Immutable: an append gives a new frontier, and a transaction that rolls back
    simply forgets it.
    """

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    def append(self, leaf: bytes) -> Frontier:
        """The frontier after one more leaf hash: one node hash on average, 53 at most."""
        peaks = self.peaks
        size = self.size
        while size & 1:
            leaf = sha256(b"\x01" + peaks[-1] + leaf).digest()
            peaks = peaks[:-1]
            size >>= 1
        return Frontier(self.size + 1, (*peaks, leaf))

    def extend(self, leaves: Iterable[bytes]) -> Frontier:
        """The frontier after these leaf hashes in order; equal to appending them one by one."""
        peaks = list(self.peaks)
        size = self.size
        for leaf in leaves:
            node = leaf
            rest = size
            while rest & 1:
                node = sha256(b"\x01" + peaks.pop() + node).digest()
                rest >>= 1
            peaks.append(node)
            size += 1
        return Frontier(size, tuple(peaks))

    def root(self) -> bytes:
        """The RFC 6962 root hash of the whole tree."""
        if not self.peaks:
            return EMPTY_ROOT
        peaks = reversed(self.peaks)
        root = next(peaks)
        for peak in peaks:
            root = sha256(b"\x01" + peak + root).digest()
        return root

    def to_bytes(self) -> bytes:
        """The size as 8 bytes, big-endian, then the peaks from left to right."""
        return self.size.to_bytes(8, "big") + b"".join(self.peaks)

    @classmethod
    def from_bytes(cls, octets: bytes) -> Frontier:
        """What `to_bytes` wrote. Raises `Malformed` where length and size do not fit."""
        size = int.from_bytes(octets[:8], "big")
        count = size.bit_count()
        if size > SIZE_MAX or len(octets) != 8 + count * HASH_LENGTH:
            raise Malformed("$", "is not a frontier: its length does not fit its size")
        starts = range(8, len(octets), HASH_LENGTH)
        return cls(size, tuple(octets[start : start + HASH_LENGTH] for start in starts))


EMPTY_FRONTIER: Final = Frontier()
