"""What only a file can do to a store: be unwritable, fill up, be read by others."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.store.errors import CommitUnknown, StoreUnavailable
from ledger.store.opening import open_store
from ledger.store.settings import StoreSettings
from ledger.store.sqlite import SqliteStore
from ledger.store.tables import PAYLOADS
from tests.support.rows import LOG, append_one, count, make_head, row, size


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(file: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(file)
    made.migrate()
    make_head(made)
    yield made
    made.close()


@pytest.fixture
def _no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_no_umask")
def test_only_the_owner_may_read_the_files(file: Path) -> None:
    made = SqliteStore(file)
    made.migrate()
    modes = {it.name: stat.S_IMODE(it.stat().st_mode) for it in file.parent.iterdir()}
    made.close()
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}


def test_a_commit_that_does_not_fit_is_unknown_and_the_next_one_goes_on(
    store: SqliteStore, file: Path
) -> None:
    """The limit of a file's size stands for a full disk: SQLite writes the log file at COMMIT."""
    append_one(store)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def observe(moment: str, kind: str) -> None:
        if (moment, kind) == ("before", "commit"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))

    full = SqliteStore(file, StoreSettings(observe=observe))
    try:
        with pytest.raises(CommitUnknown):
            append_one(full)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    full.close()
    assert size(store) == 1
    assert append_one(store) == 1


def test_a_write_that_does_not_fit_before_commit_is_unavailable(store: SqliteStore) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    sealed = bytes(64 * 1024 * 1024)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8 * 1024 * 1024, hard))
        with pytest.raises(StoreUnavailable), store.append(LOG) as appending:
            appending.insert(PAYLOADS, [row(PAYLOADS, 1, sealed=sealed)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert count(store, PAYLOADS) == 0
    assert append_one(store) == 0


def test_a_file_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        SqliteStore(tmp_path / "no" / "such" / "folder" / "ledger.db")
    with pytest.raises(StoreUnavailable):
        SqliteStore(tmp_path)


def test_a_file_that_is_no_database_is_unavailable(file: Path) -> None:
    file.write_bytes(b"this is not a database, and longer than a header is" * 50)
    with pytest.raises(StoreUnavailable, match="NOTADB"):
        SqliteStore(file)


@pytest.mark.parametrize("form", ["sqlite://{}", "sqlite:{}"])
def test_an_address_names_a_file(file: Path, form: str) -> None:
    made = open_store(form.format(file))
    made.migrate()
    make_head(made)
    made.close()
    assert file.stat().st_size > 0


def test_an_address_may_hold_any_name(tmp_path: Path) -> None:
    made = open_store(f"sqlite://{tmp_path}/a%20%3Fb.db")
    made.close()
    assert (tmp_path / "a ?b.db").exists()


@pytest.mark.parametrize(
    "url", ["", "sqlite:", "sqlite://", "sqlite://host/x", "sqlite:///x?mode=ro", "mysql://u:p@h/d"]
)
def test_another_address_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        open_store(url)
    assert "u:p" not in str(caught.value)
