"""What an earlier release wrote is read, verified and gone on with by this one, on both stores."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from ledger.client import Ledger, Step
from ledger.core.checkpoint import open_checkpoint
from ledger.core.note_key import VerifierKey
from tests.support.postgres import PostgresServer, ReachablePostgres
from tests.support.server_process import LedgerServer
from tests.support.whole_log import verify_whole_log

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
RELEASES = sorted(path.name for path in GOLDEN.glob("release-*"))


def _copy(release: str, store: str, into: Path) -> Path:
    folder = into / store
    shutil.copytree(GOLDEN / release / store, folder)
    for path in [folder, *folder.rglob("*")]:
        # A checkout keeps no modes, and the server refuses keys that others may read.
        path.chmod(0o700 if path.is_dir() else 0o600)
    return folder


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def old_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LedgerServer]:
    """A server of this release on what the named release left behind."""
    release = request.getfixturevalue("release")
    folder = _copy(release, request.param, tmp_path)
    if request.param == "sqlite":
        server = LedgerServer(folder)
    else:
        server = LedgerServer(folder, _loaded(request, folder))
    try:
        yield server.start()
    finally:
        server.close()


def _loaded(request: pytest.FixtureRequest, folder: Path) -> str:
    postgres: PostgresServer | ReachablePostgres = request.getfixturevalue("postgres_server")
    dsn = postgres.create_database(f"golden_{folder.parent.name[-20:].lower().replace('-', '_')}")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute((folder / "dump.sql").read_bytes())
    return dsn


def test_there_is_a_golden_release() -> None:
    assert RELEASES


@pytest.mark.parametrize("release", RELEASES)
def test_what_a_release_wrote_is_verified_and_gone_on_with(
    release: str, old_server: LedgerServer
) -> None:
    before = verify_whole_log(old_server)
    assert {entry.run_id for entry in before} >= {
        "golden-completed",
        "golden-reconciled",
        "golden-cancelled",
        "_log",
    }
    note = (old_server.folder / "checkpoint").read_bytes()
    key = VerifierKey.parse((old_server.folder / "verifier.key").read_text().strip())
    assert open_checkpoint(note, log_keys=[key]).checkpoint.size == len(before)
    token = old_server.folder / "tokens" / "runtime"
    with Ledger.connect(old_server.address, token_file=token) as client:
        with client.run("golden-afterwards", holder="golden") as run:
            run.plan([Step("same", "shop.pay", "1", {"n": 2}, key=b"order 7")])
            with run.effect("same") as effect:
                assert effect.replayed
                assert effect.result is not None
                assert effect.result.json() == {"receipt": "A-1"}
        with client.resume("golden-reconciled", holder="golden") as run:
            assert {step.step for step in run.state().steps} == {"again", "lost"}
    after = verify_whole_log(old_server)
    assert [entry.raw for entry in after[: len(before)]] == [entry.raw for entry in before]
