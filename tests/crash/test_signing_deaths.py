"""SIGKILL at every step between commit, mark, signature and publication."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.log_keys import LogKeys
from ledger.marks import Marks
from ledger.signing import Checkpoints
from ledger.store.interface import Store
from tests.support.logs import LOG, make_log
from tests.support.pages import ROOT


@pytest.mark.timeout(600)
@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.long)])
def test_a_signer_that_dies_at_any_step_leaves_one_history(
    store: Store, store_url: str, tmp_path: Path, stride: int
) -> None:
    make_log(store)
    marks = Marks(tmp_path / "mark")
    Checkpoints(store, keys=LogKeys(tmp_path / "keys"), marks=marks).begin(LOG)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.crash.dying_signer", str(tmp_path), str(stride)],
        env={**os.environ, "STORE_URL": store_url},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) >= 78 // stride
