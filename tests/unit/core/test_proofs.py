"""Every proof of every small tree, made and checked, and each hash of each corrupted once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from ledger.core.proof_check import ProofInvalid, verify_consistency, verify_inclusion
from ledger.core.proving import Node, consistency_proof, inclusion_proof
from tests.unit.core import trees

SIZE_MAX = 70
EVERY_DAY = {*range(13), 15, 16, 17, 31, 32, 33, 64, SIZE_MAX}
"""Sizes at and about the powers of two, where the shapes of trees change."""
SIZES = [
    pytest.param(size, marks=() if size in EVERY_DAY else pytest.mark.long)
    for size in range(SIZE_MAX + 1)
]


def _read(nodes: Sequence[Node]) -> list[bytes]:
    return [
        trees.root(node.index << node.height, (node.index + 1) << node.height) for node in nodes
    ]


def _check_inclusion(index: int, size: int) -> Callable[[list[bytes]], None]:
    def check(proof: list[bytes]) -> None:
        verify_inclusion(
            leaf=trees.leaf(index), index=index, size=size, proof=proof, root=trees.root(0, size)
        )

    return check


def _check_consistency(old: int, new: int) -> Callable[[list[bytes]], None]:
    def check(proof: list[bytes]) -> None:
        verify_consistency(
            old_size=old,
            new_size=new,
            old_root=trees.root(0, old),
            new_root=trees.root(0, new),
            proof=proof,
        )

    return check


def _damaged(proof: list[bytes]) -> list[list[bytes]]:
    """The proof with each hash corrupted, dropped, doubled or swapped, and lengthened."""
    flipped = [
        [*proof[:place], bytes([octets[0] ^ 1]) + octets[1:], *proof[place + 1 :]]
        for place, octets in enumerate(proof)
    ]
    dropped = [[*proof[:place], *proof[place + 1 :]] for place in range(len(proof))]
    doubled = [[*proof[:place], proof[place], *proof[place:]] for place in range(len(proof))]
    swapped = [
        [*proof[:place], proof[place + 1], proof[place], *proof[place + 2 :]]
        for place in range(len(proof) - 1)
    ]
    return [*flipped, *dropped, *doubled, *swapped, [*proof, bytes(32)], [bytes(32), *proof]]


def _refused(check: Callable[[list[bytes]], None], proof: list[bytes]) -> bool:
    try:
        check(proof)
    except ProofInvalid:
        return True
    return False


@pytest.mark.parametrize("size", SIZES[1:])
def test_every_inclusion_proof_holds_and_none_survives_damage(size: int) -> None:
    for index in range(size):
        proof = inclusion_proof(index, size, _read)
        assert proof == trees.path(index, 0, size)
        check = _check_inclusion(index, size)
        check(proof)
        assert all(_refused(check, damaged) for damaged in _damaged(proof))


@pytest.mark.parametrize("new", SIZES)
def test_every_consistency_proof_holds_and_none_survives_damage(new: int) -> None:
    for old in range(new + 1):
        proof = consistency_proof(old, new, _read)
        assert proof == (trees.subproof(old, 0, new) if old else [])
        check = _check_consistency(old, new)
        check(proof)
        assert all(_refused(check, damaged) for damaged in _damaged(proof))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 33, SIZE_MAX])
def test_an_inclusion_proof_holds_for_no_other_place_size_leaf_or_root(size: int) -> None:
    for index in range(size):
        proof = inclusion_proof(index, size, _read)
        right = {"leaf": trees.leaf(index), "root": trees.root(0, size)}
        for other in range(-1, size + 2):
            if other != index:
                with pytest.raises(ProofInvalid):
                    verify_inclusion(index=other, size=size, proof=proof, **right)
        for wrong in ("leaf", "root"):
            with pytest.raises(ProofInvalid):
                verify_inclusion(index=index, size=size, proof=proof, **{**right, wrong: bytes(32)})
        for other_size in (0, index, size * 2, size * 2 + 1):
            if other_size != size and other_size.bit_length() != size.bit_length():
                with pytest.raises(ProofInvalid):
                    verify_inclusion(index=index, size=other_size, proof=proof, **right)


@pytest.mark.parametrize("new", [1, 2, 3, 8, 33, SIZE_MAX])
def test_a_consistency_proof_holds_for_no_other_root(new: int) -> None:
    for old in range(new + 1):
        proof = consistency_proof(old, new, _read)
        roots = {"old_root": trees.root(0, old), "new_root": trees.root(0, new)}
        for wrong in roots:
            if wrong == "new_root" and old == 0:
                continue
            with pytest.raises(ProofInvalid):
                verify_consistency(
                    old_size=old, new_size=new, proof=proof, **{**roots, wrong: bytes(32)}
                )
        with pytest.raises(ProofInvalid):
            verify_consistency(old_size=new, new_size=old - 1, proof=proof, **roots)


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_hash_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ProofInvalid, match="32 bytes"):
        verify_inclusion(leaf=bytes(32), index=0, size=2, proof=[bytes(length)], root=bytes(32))
    with pytest.raises(ProofInvalid, match="32 bytes"):
        verify_consistency(
            old_size=1, new_size=2, old_root=bytes(length), new_root=bytes(32), proof=[bytes(32)]
        )


def test_a_proof_of_a_place_outside_the_tree_is_not_made() -> None:
    for index, size in ((0, 0), (5, 5), (-1, 5)):
        with pytest.raises(ValueError, match="index"):
            inclusion_proof(index, size, _read)
    for old, new in ((3, 2), (-1, 2)):
        with pytest.raises(ValueError, match="size"):
            consistency_proof(old, new, _read)
