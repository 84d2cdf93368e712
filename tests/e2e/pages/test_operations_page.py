"""docs/operations.md: what an operator pastes, and the table of settings."""

from __future__ import annotations

import re
import shlex
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ledger.client import HistoryRewound, Ledger, RetryPolicy, Settings
from ledger.settings import Settings as ServerSettings
from tests.e2e.pages.conftest import Reader
from tests.support.command_line import CommandLine
from tests.support.pages import ROOT, documented
from tests.support.server_process import LedgerServer

_ROW = re.compile(r"^\| `(LEDGER_\w+)` \| (?:`([^`]*)`|unset) \| \S.* \|$", re.MULTILINE)


def test_the_table_of_settings_is_that_of_the_code() -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    assert _ROW.findall(page) == [
        (str(field.validation_alias or f"LEDGER_{name.upper()}"), _shown(field.default))
        for name, field in ServerSettings.model_fields.items()
    ]


def _shown(default: object) -> str:
    if default is None:
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)


def test_a_server_is_started_asked_and_stopped_as_the_page_says(tmp_path: Path) -> None:
    ledger = CommandLine(tmp_path, {"LEDGER_LISTEN": "127.0.0.1:0"})
    child = ledger.start(*shlex.split(documented("docs/operations.md", "serve"))[1:])
    try:
        assert child.stdout is not None
        address = ""
        while not address:
            line = child.stdout.readline()
            assert line, "it ended before it served"
            address = "".join(re.findall(r"^Serving on (\S+) from ledger-data", line))
        asked = CommandLine(tmp_path, {"LEDGER_SERVER": address})
        health = shlex.split(documented("docs/operations.md", "health"))[1:]
        assert asked(*health).out == f"{address} serves.\n"
        made = {path.name for path in (tmp_path / "ledger-data").iterdir()}
        assert made >= {"ledger.db", "keys", "mark", "principals.json", "tokens"}
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=30) == 0
        asked(*health, code=7)
    finally:
        child.kill()
        child.communicate()


def test_keys_and_tenants_are_made_and_listed(tmp_path: Path) -> None:
    server = LedgerServer(tmp_path / "ledger-data").start()
    try:
        ledger = CommandLine(tmp_path)
        block = documented("docs/operations.md", "tenants")
        said = Reader(server, ledger).commands(block)
    finally:
        server.close()
    assert re.search(r"^acme +audit\.acme\.example/agents *$", said, re.MULTILINE)
    # Two tenants, each with a log and an access log.
    assert said.count("checkpoint-signing") == 4


def test_a_row_that_was_touched_by_hand_is_named_and_put_right(tmp_path: Path) -> None:
    server = LedgerServer(tmp_path / "ledger-data").start()
    try:
        reader = Reader(server, CommandLine(tmp_path))
        check = documented("docs/operations.md", "projections-check")
        rebuild = documented("docs/operations.md", "projections-rebuild")
        _append(server, "touched")
        assert reader.commands(check).strip() == "Every row says what the log says."
        with closing(sqlite3.connect(server.folder / "ledger.db")) as file, file:
            file.execute("UPDATE runs SET status = 'FAILED'")
        assert "differs in status" in reader.commands(check, code=5)
        assert "These were put right." in reader.commands(rebuild)
        assert reader.commands(check).strip() == "Every row says what the log says."
    finally:
        server.close()


@pytest.mark.long
def test_a_restored_older_copy_is_refused_until_a_checkpoint_is_pinned(tmp_path: Path) -> None:
    server = LedgerServer(tmp_path / "ledger-data")
    ledger = CommandLine(tmp_path)
    database = server.folder / "ledger.db"
    try:
        server.start()
        _append(server, "before")
        ledger("checkpoint", "--out", "before.checkpoint", "--server", server.address)
        server.stop()
        kept = database.read_bytes()
        server.start()
        _append(server, "after")
        ledger("checkpoint", "--out", "after.checkpoint", "--server", server.address)
        server.stop()
        assert not database.with_name("ledger.db-wal").exists()
        database.write_bytes(kept)
        server.start()
        ledger("health", "--server", server.address, code=7)
        with pytest.raises(HistoryRewound):
            _append(server, "refused")
        server.stop()
        Reader(server, ledger).commands(documented("docs/operations.md", "pin"))
        server.start()
        _append(server, "again")
        ledger("export", "log", "--server", server.address)
        (key,) = ledger("keys", "show").out.split()
        verify = ("verify", "log", "--key", key, "--held")
        ledger(*verify, "before.checkpoint", code=0)
        ledger(*verify, "after.checkpoint", code=5)
        (pins,) = (server.folder / "mark").glob("*.pins")
        assert "operator-7" in pins.read_text("utf-8")
    finally:
        server.close()


def _append(server: LedgerServer, run: str) -> None:
    settings = Settings(retry=RetryPolicy(deadline_s=10))
    with (
        Ledger.connect(server.address, token=server.token(), settings=settings) as client,
        client.run(run, holder="agent"),
    ):
        pass
