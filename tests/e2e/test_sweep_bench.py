"""The sweep bench, on few leases: whatever it measures, each dead holder is settled once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkouts import ROOT
from tests.support.server_process import LedgerServer
from tests.support.whole_log import verify_whole_log


@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_the_sweep_bench_finds_every_lease_expired_once_and_leaves_a_sound_log(
    tmp_path: Path,
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "bench.sweep", "--quick", "--json", "--folder", str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert len(found) == 2
    for finding in found:
        assert finding["expired"] == finding["unknown"] == finding["leases"] > 0
    server = LedgerServer(tmp_path / "sqlite").start()
    try:
        types = [entry.event["type"] for entry in verify_whole_log(server)]
    finally:
        server.close()
    assert types.count("lease.expired") == found[0]["expired"]
