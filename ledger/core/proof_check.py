"""Checking Merkle proofs (RFC 9162, sections 2.1.3.2 and 2.1.4.2).

Written from the RFC's text and sharing nothing with the code that makes proofs, not even the hash
of a node: a mistake in one shows against the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

_LENGTH: Final = 32
_NO_LEAVES: Final = bytes.fromhex(
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)


class ProofInvalid(ValueError):
    """A proof that does not show what it is said to; `reason` says which step failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def verify_inclusion(
    *, leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> None:
    """Return if the leaf hash stands at `index` in the tree of this size and root.

    Raises `ProofInvalid` otherwise; nothing about the arguments is trusted.
    """
    _require_hashes([leaf, root, *proof])
    if not 0 <= index < size:
        raise ProofInvalid("the leaf index is not below the tree size")
    fn, sn = index, size - 1
    r = leaf
    for p in proof:
        if sn == 0:
            raise ProofInvalid("the inclusion proof is too long")
        if fn & 1 or fn == sn:
            r = _parent(p, r)
            while not fn & 1 and fn != 0:
                fn >>= 1
                sn >>= 1
        else:
            r = _parent(r, p)
        fn >>= 1
        sn >>= 1
    if sn != 0:
        raise ProofInvalid("the inclusion proof is too short")
    if r != root:
        raise ProofInvalid("the inclusion proof leads to another root")


def verify_consistency(
    *, old_size: int, new_size: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]
) -> None:
    """Return if the tree of `old_size` and `old_root` is a prefix of the new one.

    The empty tree is a prefix of every tree and equal sizes need equal roots; both need an empty
    proof. Raises `ProofInvalid` otherwise; nothing about the arguments is trusted.
    """
    _require_hashes([old_root, new_root, *proof])
    if not 0 <= old_size <= new_size:
        raise ProofInvalid("the old size is above the new size, or negative")
    if old_size == 0 and old_root != _NO_LEAVES:
        raise ProofInvalid("the old root is not that of the empty tree")
    if old_size == new_size and old_root != new_root:
        raise ProofInvalid("two roots for one size")
    if old_size in (0, new_size):
        if proof:
            raise ProofInvalid("the consistency proof should be empty")
        return
    _follow_consistency(old_size, new_size, old_root, new_root, list(proof))


def _follow_consistency(
    old_size: int, new_size: int, old_root: bytes, new_root: bytes, path: list[bytes]
) -> None:
    if not path:
        raise ProofInvalid("the consistency proof is empty")
    if old_size & (old_size - 1) == 0:
        path.insert(0, old_root)
    fn, sn = old_size - 1, new_size - 1
    while fn & 1:
        fn >>= 1
        sn >>= 1
    fr = sr = path[0]
    for c in path[1:]:
        if sn == 0:
            raise ProofInvalid("the consistency proof is too long")
        if fn & 1 or fn == sn:
            fr = _parent(c, fr)
            sr = _parent(c, sr)
            while not fn & 1 and fn != 0:
                fn >>= 1
                sn >>= 1
        else:
            sr = _parent(sr, c)
        fn >>= 1
        sn >>= 1
    if sn != 0:
        raise ProofInvalid("the consistency proof is too short")
    if fr != old_root:
        raise ProofInvalid("the consistency proof leads to another old root")
    if sr != new_root:
        raise ProofInvalid("the consistency proof leads to another new root")


def _parent(left: bytes, right: bytes) -> bytes:
    digest = hashlib.sha256(b"\x01")
    digest.update(left)
    digest.update(right)
    return digest.digest()


def _require_hashes(hashes: Sequence[bytes]) -> None:
    if any(len(octets) != _LENGTH for octets in hashes):
        raise ProofInvalid("a hash is not 32 bytes long")
