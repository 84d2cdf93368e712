"""Every example of `checkpoint.md`, checked."""

from __future__ import annotations

import hashlib

from ledger.core.checkpoint import open_checkpoint
from ledger.core.events import check_body
from ledger.core.note_key import Signer, VerifierKey
from ledger.core.receipt import verify_receipt
from ledger.core.tile_files import parse_path
from ledger.marks import parse_mark
from ledger.verify import Judgement, read_policy, verify_receipt_file
from tests.support.pages import ROOT, blocks

PAGE = "docs/formats/checkpoint.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
KEY, PRIVATE, NOTE, MARK, RECEIPT = (block.text for block in blocks(PAGE, TEXT))
CHECKPOINT = (NOTE + "\n").encode()


def test_the_private_key_is_that_of_the_verifier_key() -> None:
    assert str(Signer.parse(PRIVATE).key) == KEY
    name, key_id, material = KEY.split("+", 2)
    assert key_id == Signer.parse(PRIVATE).key.key_id.hex()
    assert VerifierKey.parse(KEY).name == name
    assert material


def test_the_checkpoint_is_signed_by_the_key_and_the_mark_speaks_of_it() -> None:
    opened = open_checkpoint(CHECKPOINT, log_keys=[VerifierKey.parse(KEY)])
    assert parse_mark((MARK + "\n").encode()) == opened.checkpoint
    above, _, digest = MARK.rpartition("sha256 ")
    assert hashlib.sha256(above.encode()).hexdigest() == digest


def test_the_receipt_proves_its_entry_under_the_checkpoint() -> None:
    octets = (RECEIPT + "\n").encode()
    verified = verify_receipt(octets, log_keys=[VerifierKey.parse(KEY)], check_body=check_body)
    assert octets.endswith(CHECKPOINT)
    assert (verified.entry.index, verified.entry.type) == (1, "lease.acquired")
    report = verify_receipt_file(octets, policy=read_policy(KEY))
    assert report.verdict is Judgement.VERIFIED


def test_the_pages_path_of_a_tile_is_the_one_of_its_index() -> None:
    assert "x001/x234/067" in TEXT
    assert parse_path("tile/0/x001/x234/067").index == 1_234_067


def test_the_page_lists_every_verdict_with_its_exit_code() -> None:
    for verdict in Judgement:
        assert f"| {verdict} | {verdict.exit_code} |" in TEXT
