"""`ledger projections` names what differs from the log, and puts it right."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ledger.client import Ledger, Step
from tests.support.command_line import CommandLine
from tests.support.server_process import LedgerServer
from tests.support.whole_log import verify_whole_log


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LedgerServer]:
    """A server whose whole log is verified after the test."""
    running = LedgerServer(tmp_path / "server").start()
    try:
        yield running
        verify_whole_log(running)
    finally:
        running.close()


def test_a_changed_row_is_named_and_put_right_beside_a_running_server(
    server: LedgerServer, tmp_path: Path
) -> None:
    ledger = CommandLine(tmp_path, {"LEDGER_DATA": str(server.folder)})
    with (
        Ledger.connect(server.address, token=server.token()) as client,
        client.run("order-1", holder="agent") as run,
    ):
        run.plan([Step("s1", "send", "1", {"secret": "never-shown"})])
        with run.effect("s1") as effect:
            effect.succeeded()
    assert "Every row says what the log says." in ledger("projections", "check").out
    with closing(sqlite3.connect(server.folder / "ledger.db")) as file, file:
        file.execute("UPDATE steps SET state = 'UNKNOWN'")
    found = ledger("projections", "check", "--json", code=5)
    (difference, final) = found.lines
    assert (difference["table"], difference["columns"]) == ("steps", ["state"])
    assert final["differences"] == 1
    assert "never-shown" not in found.out
    assert "differs in state" in ledger("projections", "rebuild").out
    assert ledger("projections", "check", "--json").final["differences"] == 0
