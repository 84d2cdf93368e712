"""Receipts: verifiable with pinned keys alone, and by nothing that was changed."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ledger.core.checkpoint import Checkpoint, sign_checkpoint
from ledger.core.errors import Malformed
from ledger.core.merkle import EMPTY_FRONTIER, leaf_hash
from ledger.core.note import NoteInvalid
from ledger.core.note_key import Signer
from ledger.core.proof_check import ProofInvalid
from ledger.core.proving import Node, inclusion_proof
from ledger.core.receipt import Receipt, format_receipt, parse_receipt, verify_receipt
from ledger.core.tiles import subtree_root
from tests.support.ci import in_ci
from tests.unit.core import entries

LOG = Signer.of(name=entries.ORIGIN, seed=bytes(range(32)))
OTHER = Signer.of(name="ledger.example/log-2", seed=bytes(range(32)))


def _log(size: int, *, signer: Signer = LOG) -> tuple[list[bytes], bytes]:
    raws = [entries.entry(index=index) for index in range(size)]
    root = EMPTY_FRONTIER.extend(map(leaf_hash, raws)).root()
    return raws, sign_checkpoint(Checkpoint(signer.name, size, root), [signer])


def _receipt(index: int, size: int, *, signer: Signer = LOG) -> Receipt:
    raws, checkpoint = _log(size, signer=signer)
    leaves = [leaf_hash(raw) for raw in raws]

    def read(nodes: Sequence[Node]) -> list[bytes]:
        return [
            subtree_root(b"".join(leaves[n.index << n.height : (n.index + 1) << n.height]))
            for n in nodes
        ]

    return Receipt(raws[index], index, tuple(inclusion_proof(index, size, read)), checkpoint)


RECEIPT = _receipt(5, 11)
TEXT = format_receipt(RECEIPT)


@pytest.mark.parametrize(("index", "size"), [(0, 1), (0, 2), (1, 2), (6, 7), (100, 257)])
def test_a_receipt_is_verified_with_nothing_but_a_pinned_key(index: int, size: int) -> None:
    receipt = _receipt(index, size)
    text = format_receipt(receipt)
    assert parse_receipt(text) == receipt
    verified = verify_receipt(text, log_keys=[LOG.key])
    assert verified.entry.raw == receipt.entry
    assert verified.entry.index == index
    assert verified.checkpoint.checkpoint.size == size


def test_a_receipt_has_the_lines_of_the_specification() -> None:
    lines = TEXT.decode().split("\n")
    assert lines[0] == "c2sp.org/tlog-proof@v1"
    assert lines[1] == "extra " + base64.b64encode(RECEIPT.entry).decode()
    assert lines[2] == "index 5"
    assert lines[3:7] == [base64.b64encode(octets).decode() for octets in RECEIPT.proof]
    assert lines[7] == ""
    assert "\n".join(lines[8:]).encode() == RECEIPT.checkpoint


def test_no_flipped_bit_of_a_receipt_verifies() -> None:
    for position in range(len(TEXT)):
        for bit in range(8) if in_ci() else [position % 8]:
            raw = bytearray(TEXT)
            raw[position] ^= 1 << bit
            with pytest.raises((Malformed, NoteInvalid, ProofInvalid)):
                verify_receipt(bytes(raw), log_keys=[LOG.key])


def test_no_cut_receipt_verifies() -> None:
    for length in range(len(TEXT)):
        with pytest.raises((Malformed, NoteInvalid, ProofInvalid)):
            verify_receipt(TEXT[:length], log_keys=[LOG.key])


def test_a_receipt_of_another_place_entry_or_tree_does_not_verify() -> None:
    other_tree = _receipt(5, 12)
    for wrong in (
        replace(RECEIPT, index=4),
        replace(RECEIPT, index=11),
        replace(RECEIPT, entry=_receipt(4, 11).entry),
        replace(RECEIPT, proof=RECEIPT.proof[:-1]),
        replace(RECEIPT, proof=(*RECEIPT.proof, bytes(32))),
        replace(RECEIPT, checkpoint=other_tree.checkpoint),
    ):
        with pytest.raises(ProofInvalid):
            verify_receipt(format_receipt(wrong), log_keys=[LOG.key])


def test_an_entry_that_names_another_log_is_refused_though_it_is_in_the_tree() -> None:
    receipt = _receipt(5, 11, signer=OTHER)
    with pytest.raises(Malformed, match=r"\$\.origin"):
        verify_receipt(format_receipt(receipt), log_keys=[OTHER.key])


def test_an_entry_that_names_another_place_is_refused_though_it_is_in_the_tree() -> None:
    raw = entries.entry(index=8)
    root = leaf_hash(raw)
    note = sign_checkpoint(Checkpoint(LOG.name, 1, root), [LOG])
    with pytest.raises(Malformed, match=r"\$\.index"):
        verify_receipt(format_receipt(Receipt(raw, 0, (), note)), log_keys=[LOG.key])


def test_a_receipt_without_a_pinned_key_does_not_verify() -> None:
    stranger = Signer.of(name=entries.ORIGIN, seed=bytes(32))
    for keys in ([], [stranger.key]):
        with pytest.raises(NoteInvalid, match="no pinned key"):
            verify_receipt(TEXT, log_keys=keys)


RIGHT = TEXT.decode()
EXTRA = RIGHT.split("\n")[1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        RIGHT.replace("@v1", "@v2", 1),
        "\n" + RIGHT,
        "\ufeff" + RIGHT,
        RIGHT.replace(EXTRA + "\n", "", 1),
        RIGHT.replace(EXTRA, "extra ", 1),
        RIGHT.replace(EXTRA, EXTRA + "\n" + EXTRA, 1),
        RIGHT.replace("extra", "Extra", 1),
        RIGHT.replace("index 5", "index 05", 1),
        RIGHT.replace("index 5", "index +5", 1),
        RIGHT.replace("index 5", "index  5", 1),
        RIGHT.replace("index 5", "index 5 ", 1),
        RIGHT.replace("index 5", f"index {2**53}", 1),
        RIGHT.replace("index 5", "index \u0665", 1),
        RIGHT.replace("\n\n", "\n\r\n", 1),
        RIGHT.partition("\n\n")[0] + "\n\n",
    ],
)
def test_another_spelling_of_a_receipt_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        parse_receipt(text.encode())


def test_a_receipt_of_more_hashes_than_a_tree_can_need_is_refused() -> None:
    with pytest.raises(Malformed, match="more than 63"):
        parse_receipt(format_receipt(replace(RECEIPT, proof=(bytes(32),) * 64)))
    with pytest.raises(Malformed, match="32 bytes"):
        parse_receipt(format_receipt(replace(RECEIPT, proof=(bytes(31),))))


def test_a_receipt_at_a_thousand_entries_stays_small() -> None:
    assert len(format_receipt(_receipt(500, 1000))) < 2_200
