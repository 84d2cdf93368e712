"""The append bench, on tiny windows: its table is whole, and what it counted stands in the logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.core.ids import LOG_RUN
from tests.support.checkouts import ROOT
from tests.support.server_process import LedgerServer
from tests.support.whole_log import verify_whole_log

WIDTH_MAX = 100
ROWS = [
    "unary, 1 in flight",
    "unary, 16 in flight",
    "unary, 64 in flight",
    "(a) INSERT, one row a commit",
    "100 commands a message, 4 in flight",
    "(b) INSERT, 100 rows a commit",
    "unary, 64 in flight / (a)",
    "100 commands a message / (b)",
]


@pytest.fixture
def servers(tmp_path: Path, postgres_dsn: str) -> Iterator[list[LedgerServer]]:
    """The servers whose logs the bench wrote, started again after it."""
    made = [LedgerServer(tmp_path / "sqlite"), LedgerServer(tmp_path / "postgres", postgres_dsn)]
    yield made
    for server in made:
        server.close()


@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_what_the_append_bench_counted_stands_in_the_logs_of_both_stores(
    tmp_path: Path, postgres_dsn: str, servers: list[LedgerServer]
) -> None:
    printed = bench(tmp_path, postgres_dsn)
    assert max(len(line) for line in printed[:-1]) <= WIDTH_MAX
    found: list[dict[str, Any]] = json.loads(printed[-1])
    for row in ROWS:
        starts = [line.startswith(f"  {row}  ") for line in printed]
        assert sum(starts) == len(found) == 2
    for finding, server in zip(found, servers, strict=True):
        entries = verify_whole_log(server.start())
        assert len(entries) == finding["log_size"]
        of_runs = [entry for entry in entries if entry.run_id != LOG_RUN]
        assert len(of_runs) == finding["acknowledged"] > 0


def bench(folder: Path, dsn: str) -> list[str]:
    """The lines that the quick bench prints."""
    ended = subprocess.run(
        [sys.executable, "-m", "bench.append", "--quick", "--json", "--folder", str(folder)],
        cwd=ROOT,
        env={**os.environ, "LEDGER_BENCH_POSTGRES_DSN": dsn},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.splitlines()
