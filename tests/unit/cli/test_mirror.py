"""A log as a folder of tiles: whole, cut off, or not what its checkpoint signs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.cli.mirror import Mirror, MirrorUnreadable, write_mirror
from ledger.client import Entry
from ledger.core import events
from ledger.core.checkpoint import Checkpoint, sign_checkpoint
from ledger.core.merkle import EMPTY_FRONTIER, leaf_hash
from ledger.core.note_key import Signer
from ledger.verify import FolderSource, Judgement, Policy, verify_log, verify_receipt_file
from tests.unit.cli.story_entries import ORIGIN, RUNTIME, entries_of

SIGNER = Signer.of(name=ORIGIN, seed=bytes(32))
POLICY = Policy((SIGNER.key,))


def _log(size: int) -> list[Entry]:
    bodies = [events.RunOpened(), *(events.EvidenceAttached(kind=f"n{n}") for n in range(1, size))]
    return [Entry(each.index, each.raw) for each in entries_of([(b, RUNTIME) for b in bodies])]


def _note(log: list[Entry]) -> str:
    root = EMPTY_FRONTIER.extend(leaf_hash(each.entry) for each in log).root()
    return sign_checkpoint(Checkpoint(ORIGIN, len(log), root), [SIGNER]).decode("utf-8")


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 600])
def test_a_written_folder_verifies_and_gives_every_entry_back(size: int, tmp_path: Path) -> None:
    log = _log(size)
    made = write_mirror(log, tmp_path, _note(log))
    assert made.size == size
    assert list(Mirror(tmp_path).raw_entries()) == [each.entry for each in log]
    report = verify_log(FolderSource(tmp_path), policy=POLICY, at_least=size)
    assert report.verdict is Judgement.VERIFIED, report.findings
    assert not report.findings


@pytest.mark.parametrize(("size", "index"), [(1, 0), (2, 1), (257, 0), (257, 256), (600, 511)])
def test_a_receipt_made_from_a_folder_verifies(size: int, index: int, tmp_path: Path) -> None:
    log = _log(size)
    write_mirror(log, tmp_path, _note(log))
    receipt = Mirror(tmp_path).receipt(index).encode("utf-8")
    assert verify_receipt_file(receipt, policy=POLICY).verdict is Judgement.VERIFIED


def test_what_came_after_the_checkpoint_is_left_out(tmp_path: Path) -> None:
    log = _log(5)
    write_mirror(log, tmp_path, _note(log[:3]))
    assert Mirror(tmp_path).size == 3
    assert len(list(Mirror(tmp_path).raw_entries())) == 3


def test_entries_that_are_not_what_the_checkpoint_signs_leave_no_checkpoint(
    tmp_path: Path,
) -> None:
    log = _log(4)
    other = [*log[:3], Entry(3, log[2].entry)]
    for wrong in (other, log[:3]):
        with pytest.raises(MirrorUnreadable, match="are not the log"):
            write_mirror(wrong, tmp_path, _note(log))
        with pytest.raises(MirrorUnreadable, match="cannot be read"):
            Mirror(tmp_path)


def test_a_run_is_found_in_a_folder_by_its_id(tmp_path: Path) -> None:
    log = _log(4)
    write_mirror(log, tmp_path, _note(log))
    assert [each.index for each in Mirror(tmp_path).run_entries("r")] == [0, 1, 2, 3]
    assert Mirror(tmp_path).run_entries("other") == []


def test_a_missing_or_cut_bundle_is_named(tmp_path: Path) -> None:
    log = _log(3)
    write_mirror(log, tmp_path, _note(log))
    (bundle,) = (path for path in (tmp_path / "tile" / "entries").rglob("*") if path.is_file())
    bundle.write_bytes(bundle.read_bytes()[:-1])
    with pytest.raises(MirrorUnreadable, match=r"tile/entries/000.p/3"):
        list(Mirror(tmp_path).raw_entries())
    bundle.unlink()
    with pytest.raises(MirrorUnreadable, match=r"tile/entries/000.p/3"):
        list(Mirror(tmp_path).raw_entries())


@pytest.mark.parametrize("index", [-1, 3, 10**9])
def test_there_is_no_receipt_of_an_entry_that_is_not_there(index: int, tmp_path: Path) -> None:
    log = _log(3)
    write_mirror(log, tmp_path, _note(log))
    with pytest.raises(MirrorUnreadable, match="there is no entry"):
        Mirror(tmp_path).receipt(index)


def test_a_folder_whose_checkpoint_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("hello\n")
    with pytest.raises(MirrorUnreadable, match="no checkpoint"):
        Mirror(tmp_path)
