"""The README's first command, pasted into a fresh checkout; .ci/run runs the second."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.checkouts import fresh_checkout
from tests.support.pages import documented


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_readmes_demo_command_works_in_a_fresh_checkout(tmp_path: Path) -> None:
    checkout = fresh_checkout(tmp_path / "checkout")
    # The environment of a person who has opened a new terminal: no virtual environment is active.
    kept = {name: value for name, value in os.environ.items() if not _is_of_this_run(name)}
    kept["HOME"] = str(tmp_path)
    ended = subprocess.run(
        ["bash", "-c", documented("README.md", "demo")],
        cwd=checkout,
        env=kept,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert list((checkout / "ledger-demo").iterdir()), ended.stdout


def _is_of_this_run(name: str) -> bool:
    return name in {"VIRTUAL_ENV", "PYTHONPATH"} or name.startswith(("LEDGER_", "PYTEST_"))
