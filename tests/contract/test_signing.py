"""Checkpoints that never fork: signed behind the mark, refused where the log is not what it was."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.core.checkpoint import Checkpoint, open_checkpoint
from ledger.core.ids import Tenant
from ledger.core.log import Log
from ledger.core.merkle import EMPTY_FRONTIER, leaf_hash
from ledger.core.note_key import VerifierKey
from ledger.keyring import KeyMissing
from ledger.log_keys import LogKeys
from ledger.log_reading import NotSigning
from ledger.marks import MarkBroken, Marks, format_mark
from ledger.signing import Checkpoints, HistoryChanged, HistoryRewound, PinRefused
from ledger.store.interface import Store
from ledger.store.tables import CHECKPOINTS, ENTRIES, HEADS, TILES, Row
from tests.support.logs import LOG, entries_of, events, make_log, write
from tests.support.stores import OpenAgain

OTHER = Log(Tenant("other"), 2, LOG.origin, bytes(32))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "house"


def signing(store: Store, folder: Path) -> Checkpoints:
    return Checkpoints(store, keys=LogKeys(folder / "keys"), marks=Marks(folder / "mark"))


@pytest.fixture
def checkpoints(store: Store, folder: Path) -> Checkpoints:
    """Of a log that has begun and is empty."""
    make_log(store)
    made = signing(store, folder)
    made.begin(LOG)
    return made


def opened(checkpoints: Checkpoints) -> Checkpoint:
    """A new checkpoint, verified with the key that it names."""
    published = checkpoints.checkpoint(LOG)
    key = VerifierKey.parse(published.verifier_key)
    assert str(key) == checkpoints.verifier_key(LOG)
    checkpoint = open_checkpoint(published.note, log_keys=[key]).checkpoint
    assert checkpoint.size == published.size
    return checkpoint


def mark(folder: Path) -> Checkpoint | None:
    with Marks(folder / "mark").held(LOG.origin) as held:
        return held.read()


def test_a_log_begins_with_a_key_and_a_mark_of_size_0(
    checkpoints: Checkpoints, folder: Path
) -> None:
    assert mark(folder) == Checkpoint(LOG.origin, 0, EMPTY_FRONTIER.root())
    assert LogKeys(folder / "keys").has(LOG.origin)
    for path in (folder / "keys" / "log").rglob("*"):
        assert path.is_dir() or path.stat().st_mode & 0o077 == 0


def test_beginning_again_changes_nothing(
    store: Store, checkpoints: Checkpoints, folder: Path
) -> None:
    key = checkpoints.verifier_key(LOG)
    checkpoints.begin(LOG)
    write(store, events())
    checkpoints.begin(LOG)
    assert checkpoints.verifier_key(LOG) == key


def test_a_checkpoint_holds_everything_committed_before_it(
    store: Store, checkpoints: Checkpoints, folder: Path
) -> None:
    first = events(runs=40, steps=3)
    write(store, first)
    assert opened(checkpoints).size == len(first)
    more = events(runs=40, steps=3, first=40)
    write(store, more)
    checkpoint = opened(checkpoints)
    leaves = [leaf_hash(entry) for entry in entries_of([*first, *more])]
    assert checkpoint.root == EMPTY_FRONTIER.extend(leaves).root()
    assert mark(folder) == checkpoint


def test_a_log_that_did_not_move_gives_the_same_note_and_publishes_it_once(
    store: Store, checkpoints: Checkpoints
) -> None:
    write(store, events())
    notes = {checkpoints.checkpoint(LOG).note for _ in range(3)}
    assert len(notes) == 1
    assert checkpoints.published(LOG, limit=10)[0].note in notes
    assert len(checkpoints.published(LOG, limit=10)) == 2  # the empty log's and this one


def test_threads_that_ask_at_once_all_get_what_they_had_written(
    store: Store, checkpoints: Checkpoints
) -> None:
    found: list[tuple[int, int]] = []

    def ask(number: int) -> None:
        write(store, events(runs=1, steps=1, first=10 + number))
        with store.read() as reading:
            size = reading.head(LOG.number).size
        found.append((size, checkpoints.checkpoint(LOG).size))

    write(store, events())
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 6
    assert all(signed >= written for written, signed in found)


def test_an_older_copy_of_the_log_is_refused_and_nothing_is_published(
    store: Store, checkpoints: Checkpoints, folder: Path
) -> None:
    write(store, events())
    older = _rows(store)
    write(store, events(first=5))
    signed = opened(checkpoints)
    _restore(store, older)
    with pytest.raises(HistoryRewound, match="ledger checkpoint pin"):
        checkpoints.checkpoint(LOG)
    with pytest.raises(HistoryRewound):
        checkpoints.begin(LOG)
    assert mark(folder) == signed


def test_an_older_copy_that_has_grown_on_past_the_mark_is_refused(
    store: Store, checkpoints: Checkpoints
) -> None:
    write(store, events())
    older = _rows(store)
    write(store, events(runs=2, first=5))
    opened(checkpoints)
    _restore(store, older)
    write(store, events(runs=6, first=20))
    with pytest.raises(HistoryRewound, match="are not those that were signed"):
        checkpoints.checkpoint(LOG)


def test_another_log_of_the_same_size_is_refused(store: Store, checkpoints: Checkpoints) -> None:
    empty = _rows(store)
    write(store, events(first=1))
    opened(checkpoints)
    _restore(store, empty)
    write(store, events(first=101))
    with pytest.raises(HistoryRewound):
        checkpoints.checkpoint(LOG)


def test_a_missing_mark_is_no_empty_mark(
    store: Store, checkpoints: Checkpoints, folder: Path
) -> None:
    write(store, events())
    opened(checkpoints)
    Marks(folder / "mark").path(LOG.origin).unlink()
    for ask in (checkpoints.checkpoint, checkpoints.begin):
        with pytest.raises(HistoryRewound, match="no high-water mark"):
            ask(LOG)


def test_a_missing_mark_beside_an_empty_log_is_not_made_anew(
    store: Store, checkpoints: Checkpoints, folder: Path
) -> None:
    Marks(folder / "mark").path(LOG.origin).unlink()
    with pytest.raises(HistoryRewound):
        checkpoints.begin(LOG)


@pytest.mark.parametrize("cut", range(0, 200, 7))
def test_a_torn_mark_is_an_error(
    store: Store, checkpoints: Checkpoints, folder: Path, cut: int
) -> None:
    """ACK-03."""
    path = Marks(folder / "mark").path(LOG.origin)
    whole = path.read_bytes()
    if cut >= len(whole):
        path.write_bytes(whole + b"x" * (cut - len(whole) + 1))
    else:
        path.write_bytes(whole[:cut])
    with pytest.raises(MarkBroken, match="not whole"):
        checkpoints.checkpoint(LOG)


def test_every_flipped_bit_of_a_mark_is_an_error(
    store: Store, checkpoints: Checkpoints, folder: Path
) -> None:
    path = Marks(folder / "mark").path(LOG.origin)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(MarkBroken):
            mark(folder)


def test_another_logs_mark_is_an_error(checkpoints: Checkpoints, folder: Path) -> None:
    path = Marks(folder / "mark").path(LOG.origin)
    other = Checkpoint("ledger.test/two", 0, EMPTY_FRONTIER.root())
    path.write_text(format_mark(other), encoding="utf-8")
    with pytest.raises(MarkBroken, match=r"is of ledger[.]test/two"):
        checkpoints.checkpoint(LOG)


@pytest.mark.parametrize("index", [0, 7, 20])
def test_a_bit_that_flipped_before_signing_is_refused_with_its_index(
    store: Store, checkpoints: Checkpoints, folder: Path, index: int
) -> None:
    write(store, events())
    before = mark(folder)
    _change_entry(store, index, lambda entry: entry.replace(b"rt-1", b"rt-2"))
    with pytest.raises(HistoryChanged) as refused:
        checkpoints.checkpoint(LOG)
    assert refused.value.index == index
    assert mark(folder) == before


def test_an_entry_changed_with_its_leaf_before_signing_is_refused(
    store: Store, checkpoints: Checkpoints
) -> None:
    write(store, events())
    _change_entry(store, 4, lambda entry: entry.replace(b"rt-1", b"rt-2"), with_leaf=True)
    with pytest.raises(HistoryChanged):
        checkpoints.checkpoint(LOG)


def test_an_entry_removed_before_signing_is_refused(store: Store, checkpoints: Checkpoints) -> None:
    write(store, events())
    with store.change() as changing:
        changing.delete(ENTRIES, [(LOG.number, 6)])
    with pytest.raises(HistoryChanged) as refused:
        checkpoints.checkpoint(LOG)
    assert refused.value.index == 6


def test_a_changed_or_missing_tile_is_refused(store: Store, checkpoints: Checkpoints) -> None:
    write(store, events(runs=60, steps=3))
    opened(checkpoints)
    write(store, events(runs=10, steps=3, first=60))
    with store.change() as changing:
        hashes = changing.get(TILES, [(LOG.number, 1, 0)])[0][3]
        assert isinstance(hashes, bytes)
        flipped = hashes[:-1] + bytes([hashes[-1] ^ 1])
        changing.upsert(TILES, [(LOG.number, 1, 0, flipped)])
    with pytest.raises(NotSigning):
        checkpoints.checkpoint(LOG)
    with store.change() as changing:
        changing.delete(TILES, [(LOG.number, 1, 0)])
    with pytest.raises(NotSigning):
        checkpoints.checkpoint(LOG)


def test_a_pinned_checkpoint_lets_signing_go_on(
    store: Store, checkpoints: Checkpoints, folder: Path
) -> None:
    write(store, events())
    kept = checkpoints.checkpoint(LOG)
    older = _rows(store)
    write(store, events(first=5))
    lost = opened(checkpoints)
    _restore(store, older)
    with pytest.raises(HistoryRewound):
        checkpoints.checkpoint(LOG)
    pinned = checkpoints.pin(LOG, kept.note, by="operator-1")
    assert (pinned.before, pinned.now.size) == (lost, kept.size)
    assert [one.size for one in checkpoints.published(LOG, limit=9)] == [kept.size, 0]
    write(store, events(first=20))
    assert opened(checkpoints).size == kept.size + len(events(first=20))
    record = Marks(folder / "mark").path(LOG.origin).with_name
    pins = record(Marks(folder / "mark").path(LOG.origin).name + ".pins").read_text()
    assert f"operator-1 pinned {kept.size} " in pins
    assert f"in place of {lost.size} {lost.root.hex()}" in pins


def test_a_lost_mark_is_pinned_again(store: Store, checkpoints: Checkpoints, folder: Path) -> None:
    write(store, events())
    kept = checkpoints.checkpoint(LOG)
    Marks(folder / "mark").path(LOG.origin).unlink()
    assert checkpoints.pin(LOG, kept.note, by="operator-1").before is None
    assert opened(checkpoints).size == kept.size


def test_what_cannot_be_pinned_leaves_the_mark_as_it_was(
    store: Store, checkpoints: Checkpoints, folder: Path, tmp_path: Path
) -> None:
    write(store, events())
    older = _rows(store)
    write(store, events(first=5))
    newer = checkpoints.checkpoint(LOG)
    before = mark(folder)
    _restore(store, older)
    with pytest.raises(PinRefused, match="holds only"):
        checkpoints.pin(LOG, newer.note, by="operator-1")
    with pytest.raises(PinRefused, match="no checkpoint of this log's key"):
        checkpoints.pin(LOG, newer.note.replace(b"\n", b"\r\n"), by="operator-1")
    write(store, events(first=20))
    with pytest.raises(PinRefused, match="are not those of that checkpoint"):
        checkpoints.pin(LOG, newer.note, by="operator-1")
    assert mark(folder) == before


def test_another_key_never_signs_for_the_log(
    store: Store, checkpoints: Checkpoints, folder: Path, tmp_path: Path
) -> None:
    write(store, events())
    opened(checkpoints)
    elsewhere = tmp_path / "elsewhere"
    LogKeys(elsewhere / "keys").new(LOG.origin, seed=bytes(32))
    impostor = Checkpoints(store, keys=LogKeys(elsewhere / "keys"), marks=Marks(folder / "mark"))
    with pytest.raises(NotSigning, match="signs with the same key"):
        impostor.checkpoint(LOG)


def test_a_process_without_the_key_answers_what_another_signed(
    store: Store, open_again: OpenAgain, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    without = signing(open_again(), tmp_path / "elsewhere")
    without.begin(LOG)
    write(store, events())
    signed = checkpoints.checkpoint(LOG)
    assert without.checkpoint(LOG).note == signed.note
    with pytest.raises(NotSigning):
        without.verifier_key(LOG)


def test_a_process_without_the_key_does_not_wait_for_ever(
    store: Store, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    without = Checkpoints(
        store,
        keys=LogKeys(elsewhere / "keys"),
        marks=Marks(elsewhere / "mark"),
        elsewhere_wait_ms=60,
    )
    write(store, events())
    with pytest.raises(NotSigning, match="no other one signed"):
        without.checkpoint(LOG)


def test_only_what_moved_is_signed_in_passing(store: Store, checkpoints: Checkpoints) -> None:
    write(store, events())
    checkpoints.sign_if_moved(LOG)
    checkpoints.sign_if_moved(LOG)
    assert [one.size for one in checkpoints.published(LOG, limit=9)] == [len(events()), 0]


def test_a_key_that_others_may_read_or_that_is_torn_is_not_used(
    checkpoints: Checkpoints, folder: Path
) -> None:
    keys = LogKeys(folder / "keys")
    path = next(path for path in (folder / "keys" / "log").rglob("*") if len(path.name) == 8)
    path.chmod(0o640)
    with pytest.raises(KeyMissing, match="0600"):
        keys.load(LOG.origin)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(KeyMissing) as torn:
        keys.load(LOG.origin)
    assert "PRIVATE" not in str(torn.value)
    with pytest.raises(NotSigning):
        checkpoints.checkpoint(LOG)


_TABLES = (HEADS, ENTRIES, TILES, CHECKPOINTS)


def _rows(store: Store) -> list[list[Row]]:
    """Every row of the log: a backup."""
    with store.read() as reading:
        return [
            list(reading.page(table, equal={}, order=table.key, limit=10_000)) for table in _TABLES
        ]


def _restore(store: Store, backup: list[list[Row]]) -> None:
    with store.change() as changing:
        for table in _TABLES:
            rows = changing.page(table, equal={}, order=table.key, limit=10_000)
            places = [table.names.index(name) for name in table.key]
            changing.delete(table, [tuple(row[at] for at in places) for row in rows])
    with store.change() as changing:
        for table, rows in zip(_TABLES, backup, strict=True):
            changing.insert(table, rows)


def _change_entry(
    store: Store, index: int, change: Callable[[bytes], bytes], *, with_leaf: bool = False
) -> None:
    with store.change() as changing:
        row = list(changing.get(ENTRIES, [(LOG.number, index)])[0])
        assert isinstance(row[5], bytes)
        changed = change(row[5])
        assert changed != row[5]
        row[5] = changed
        if with_leaf:
            row[6] = leaf_hash(changed)
        changing.upsert(ENTRIES, [tuple(row)])
