"""Making Merkle proofs (RFC 6962, sections 2.1.1 and 2.1.2).

A proof hash is the root over a range of leaves; every range is a row of complete subtrees, so a
proof is planned first, read in one go and folded last. Checking shares no code with this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ledger.core.merkle import node_hash


@dataclass(frozen=True, slots=True)
class Node:
    """A complete subtree: `height` 0 is a leaf; it spans leaves index*2**height onwards."""

    height: int
    index: int


@dataclass(frozen=True, slots=True)
class _Range:
    begin: int
    end: int


ReadNodes = Callable[[Sequence[Node]], Sequence[bytes]]
"""Hashes of complete subtrees, in the order asked for, all from one tree size."""


def inclusion_proof(index: int, size: int, read: ReadNodes) -> list[bytes]:
    """The hashes that lead from leaf `index` to the root of the tree of `size`, leaf side first.

    `read` is called once. Raises ValueError unless 0 <= index < size.
    """
    if not 0 <= index < size:
        raise ValueError("a leaf index is below the tree's size")
    return _fold(_path(index, _Range(0, size)), read)


def consistency_proof(old_size: int, new_size: int, read: ReadNodes) -> list[bytes]:
    """The hashes that show the tree of `old_size` to be a prefix of the tree of `new_size`.

    Empty where the two are equal or the old one is empty, as RFC 6962 has nothing to show there.
    `read` is called at most once. Raises ValueError unless 0 <= old_size <= new_size.
    """
    if not 0 <= old_size <= new_size:
        raise ValueError("the old size is not above the new one")
    if old_size in (0, new_size):
        return []
    return _fold(_subproof(old_size, _Range(0, new_size)), read)


def _path(index: int, span: _Range) -> list[_Range]:
    """PATH(m, D[n]) of RFC 6962, section 2.1.1, as ranges of leaves."""
    ranges: list[_Range] = []
    begin, end = span.begin, span.end
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            ranges.append(_Range(middle, end))
            end = middle
        else:
            ranges.append(_Range(begin, middle))
            begin = middle
    ranges.reverse()
    return ranges


def _subproof(old_size: int, span: _Range) -> list[_Range]:
    """SUBPROOF(m, D[n], true) of RFC 6962, section 2.1.2, as ranges of leaves."""
    ranges: list[_Range] = []
    begin, end = span.begin, span.end
    is_whole_old_tree = True
    while end != old_size:
        middle = begin + _split(end - begin)
        if old_size <= middle:
            ranges.append(_Range(middle, end))
            end = middle
        else:
            ranges.append(_Range(begin, middle))
            begin = middle
            is_whole_old_tree = False
    if not is_whole_old_tree:
        ranges.append(_Range(begin, end))
    ranges.reverse()
    return ranges


def _split(count: int) -> int:
    """The largest power of two below `count`."""
    return 1 << (count - 1).bit_length() - 1


def _complete_subtrees(span: _Range) -> Iterator[Node]:
    """The complete subtrees that make up a range, from left to right.

    A range of a proof begins at a multiple of the power of two at or above its length, so the
    binary digits of the length are its subtrees.
    """
    begin, end = span.begin, span.end
    while begin < end:
        height = (end - begin).bit_length() - 1
        yield Node(height, begin >> height)
        begin += 1 << height


def _fold(ranges: Sequence[_Range], read: ReadNodes) -> list[bytes]:
    rows = [list(_complete_subtrees(span)) for span in ranges]
    hashes = iter(read([node for row in rows for node in row]))
    return [_root_of([next(hashes) for _ in row]) for row in rows]


def _root_of(row: list[bytes]) -> bytes:
    root = row.pop()
    while row:
        root = node_hash(row.pop(), root)
    return root
