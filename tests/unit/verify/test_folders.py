"""Exported folders, receipts and policies: every byte counts, or is said not to."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.core.note_key import Algorithm, Signer
from ledger.verify import (
    Code,
    FolderSource,
    Judgement,
    PolicyUnreadable,
    Report,
    read_policy,
    verify_log,
    verify_receipt_file,
)
from tests.support.logs import entries_of, events
from tests.unit.verify.logs import ENTRIES, POLICY, SIGNER, SIZE, note, receipt, write_folder

# Full tiles on two levels and partial ones beside them.
LARGE = entries_of(events(runs=30, steps=5))
HELD = note(LARGE[:300])


def verified(folder: Path) -> Report:
    return verify_log(FolderSource(folder), policy=POLICY, held=[HELD])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "export"
    write_folder(made, LARGE, note(LARGE))
    return made


def test_a_whole_folder_is_verified(folder: Path) -> None:
    report = verified(folder)
    assert (report.verdict, report.size) == (Judgement.VERIFIED, len(LARGE))
    assert not any("other files" in said for said in report.not_proven)


def test_a_missing_folder_or_checkpoint_is_unverifiable(folder: Path, tmp_path: Path) -> None:
    assert verified(tmp_path / "nothing").verdict is Judgement.UNVERIFIABLE
    (folder / "checkpoint").unlink()
    assert verified(folder).verdict is Judgement.UNVERIFIABLE
    (folder / "checkpoint").mkdir()
    assert verified(folder).verdict is Judgement.UNVERIFIABLE


def test_each_file_that_is_missing_or_cut_is_found(folder: Path) -> None:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    assert len(files) == 8
    for path in files:
        whole = path.read_bytes()
        path.unlink()
        assert verified(folder).verdict in {Judgement.FAILED, Judgement.UNVERIFIABLE}, path
        path.write_bytes(whole[:-1])
        assert verified(folder).verdict in {Judgement.FAILED, Judgement.UNVERIFIABLE}, path
        path.write_bytes(whole + b"\n")
        assert verified(folder).verdict in {Judgement.FAILED, Judgement.UNVERIFIABLE}, path
        path.write_bytes(whole)
    assert verified(folder).verdict is Judgement.VERIFIED


def test_a_missing_bundle_is_found_with_the_index_where_entries_end(folder: Path) -> None:
    (folder / "tile/entries/001").unlink(missing_ok=True)
    for path in folder.glob("tile/entries/001.p/*"):
        path.unlink()
    report = verified(folder)
    broken = [one for one in report.findings if one.code is Code.FILE_UNREADABLE]
    assert [one.index for one in broken] == [256]


def test_each_byte_of_a_small_folder_is_found_when_it_changes(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    few = ENTRIES[:2]
    write_folder(folder, few, note(few))

    def verdict() -> Judgement:
        return verify_log(FolderSource(folder), policy=POLICY, at_least=2).verdict

    assert verdict() is Judgement.VERIFIED
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        whole = path.read_bytes()
        for at in range(len(whole)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert verdict() in {Judgement.FAILED, Judgement.UNVERIFIABLE}, (path, at)
        path.write_bytes(whole)


def test_other_files_in_the_folder_are_said_not_to_be_judged(folder: Path) -> None:
    (folder / "README").write_text("made by hand", encoding="utf-8")
    stale = folder / "tile/entries/000.p/7"
    stale.parent.mkdir()
    stale.write_bytes(b"")
    report = verified(folder)
    assert report.verdict is Judgement.VERIFIED
    assert any("2 other files" in said for said in report.not_proven)


def test_a_folder_older_than_what_is_held_is_too_short(tmp_path: Path) -> None:
    write_folder(tmp_path / "old", LARGE[:200], note(LARGE[:200]))
    report = verified(tmp_path / "old")
    assert report.verdict is Judgement.FAILED
    assert {one.code for one in report.findings} == {Code.SHORTER}


# Receipts


def test_a_receipt_is_verified_alone() -> None:
    report = verify_receipt_file(receipt(ENTRIES, 9), policy=POLICY)
    assert report.verdict is Judgement.VERIFIED
    assert report.scope == f"entry 9 of {SIZE}"
    assert any("other entries" in said for said in report.not_proven)


def test_each_byte_of_a_receipt_is_found_when_it_changes() -> None:
    whole = receipt(ENTRIES[:3], 1)
    for at in range(len(whole)):
        changed = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        verdict = verify_receipt_file(changed, policy=POLICY).verdict
        assert verdict in {Judgement.FAILED, Judgement.UNVERIFIABLE}, at


@pytest.mark.parametrize("octets", [b"", b"\x00", b"c2sp.org/tlog-proof@v1\n", b"PNG" * 99])
def test_what_is_no_receipt_is_unverifiable(octets: bytes) -> None:
    report = verify_receipt_file(octets, policy=POLICY)
    assert report.verdict is Judgement.UNVERIFIABLE
    assert report.line().startswith("UNVERIFIABLE: ")


def test_a_receipt_without_a_pinned_key_is_unverifiable() -> None:
    whole = receipt(ENTRIES, 9)
    other = read_policy(str(Signer.of(name=SIGNER.name, seed=b"x" * 32).key))
    assert verify_receipt_file(whole, policy=None).verdict is Judgement.UNVERIFIABLE
    assert verify_receipt_file(whole, policy=other).verdict is Judgement.UNVERIFIABLE


def test_a_receipts_proof_at_another_index_or_under_another_size_is_found() -> None:
    moved = receipt(ENTRIES, 9).replace(b"\nindex 9\n", b"\nindex 8\n")
    assert verify_receipt_file(moved, policy=POLICY).findings[0].code is Code.RECEIPT_DIFFERS
    head, _, _ = receipt(ENTRIES, 9).partition(b"\n\n")
    other = head + b"\n\n" + note(ENTRIES[:12])
    assert verify_receipt_file(other, policy=POLICY).verdict is Judgement.FAILED


# Policies


def test_a_policy_is_a_key_or_the_lines_of_a_tlog_policy() -> None:
    key = str(SIGNER.key)
    assert read_policy(f"# ours\n\n{key}\n").log_keys == (SIGNER.key,)
    assert read_policy(f"log {key} https://ledger.example/\nquorum none\n").log_keys == (
        SIGNER.key,
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "pins no key"),
        ("# nothing\n", "pins no key"),
        ("hello", "Line 1 is no verifier key"),
        (f"{SIGNER.key}\nquorum group-1\n", "witnesses"),
        (f"{SIGNER.key}\nwitness w {SIGNER.key}\n", "witnesses"),
        (f"{SIGNER.key}\n{SIGNER.key}\n", "twice"),
        (f"{SIGNER.key} {SIGNER.key}", "neither a key"),
        (
            str(Signer.of(name="w", seed=bytes(32), algorithm=Algorithm.COSIGNATURE_V1).key),
            "a witness's key",
        ),
    ],
)
def test_a_policy_that_says_something_else_is_refused(text: str, word: str) -> None:
    with pytest.raises(PolicyUnreadable, match=word):
        read_policy(text)
