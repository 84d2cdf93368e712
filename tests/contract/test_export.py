"""Exported folders, from every store: whole, equal, and verified by the other side."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.export import ExportRefused, export_log
from ledger.log_keys import LogKeys
from ledger.marks import Marks
from ledger.signing import Checkpoints
from ledger.store.interface import Store
from ledger.store.tables import ENTRIES
from ledger.verify import FolderSource, Judgement, read_policy, verify_log
from ledger.views import PublishedCheckpoint
from tests.support.logs import LOG, entries_of, events, make_log, write
from tests.unit.verify.logs import write_folder

EVENTS = events(runs=30, steps=5)


@pytest.fixture
def checkpoints(store: Store, tmp_path: Path) -> Checkpoints:
    make_log(store)
    made = Checkpoints(store, keys=LogKeys(tmp_path / "keys"), marks=Marks(tmp_path / "mark"))
    made.begin(LOG)
    write(store, EVENTS)
    return made


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_an_export_is_verified_and_holds_what_the_formats_say(
    store: Store, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    published = checkpoints.checkpoint(LOG)
    told: list[tuple[int, int]] = []
    exported = export_log(
        store,
        LOG,
        tmp_path / "export",
        checkpoint=published,
        progress=lambda done, size: told.append((done, size)),
    )
    assert told[-1] == (len(EVENTS), len(EVENTS))
    write_folder(tmp_path / "expected", entries_of(EVENTS), published.note)
    assert files(tmp_path / "export") == files(tmp_path / "expected")
    assert exported.files == len(files(tmp_path / "export"))
    report = verify_log(
        FolderSource(tmp_path / "export"),
        policy=read_policy(published.verifier_key),
        held=[published.note],
    )
    assert report.verdict is Judgement.VERIFIED, report.line()


def test_an_export_ends_at_its_checkpoint_and_two_are_equal(
    store: Store, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    published = checkpoints.checkpoint(LOG)
    export_log(store, LOG, tmp_path / "first", checkpoint=published)
    write(store, events(runs=5, first=200))
    export_log(store, LOG, tmp_path / "second", checkpoint=published)
    assert files(tmp_path / "first") == files(tmp_path / "second")


def test_a_changed_or_missing_entry_leaves_no_checkpoint(
    store: Store, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    published = checkpoints.checkpoint(LOG)
    with store.change() as changing:
        row = list(changing.get(ENTRIES, [(LOG.number, 300)])[0])
        assert isinstance(row[5], bytes)
        row[5] = row[5].replace(b"rt-1", b"rt-2")
        changing.upsert(ENTRIES, [tuple(row)])
    with pytest.raises(ExportRefused, match="not the tree"):
        export_log(store, LOG, tmp_path / "changed", checkpoint=published)
    with store.change() as changing:
        changing.delete(ENTRIES, [(LOG.number, 300)])
    with pytest.raises(ExportRefused, match="are missing"):
        export_log(store, LOG, tmp_path / "missing", checkpoint=published)
    for name in ("changed", "missing"):
        assert not (tmp_path / name / "checkpoint").exists()


def test_a_folder_that_holds_something_is_not_touched(
    store: Store, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_bytes(b"x")
    with pytest.raises(ExportRefused, match="not empty"):
        export_log(store, LOG, tmp_path / "mine", checkpoint=checkpoints.checkpoint(LOG))
    assert files(tmp_path / "mine") == {"letter": b"x"}


def test_a_log_of_no_entries_exports_its_checkpoint_and_verifies_nothing(
    store: Store, tmp_path: Path
) -> None:
    make_log(store)
    made = Checkpoints(store, keys=LogKeys(tmp_path / "keys"), marks=Marks(tmp_path / "mark"))
    made.begin(LOG)
    published: PublishedCheckpoint = made.checkpoint(LOG)
    export_log(store, LOG, tmp_path / "empty", checkpoint=published)
    report = verify_log(
        FolderSource(tmp_path / "empty"), policy=read_policy(published.verifier_key)
    )
    assert report.verdict is Judgement.UNVERIFIABLE
