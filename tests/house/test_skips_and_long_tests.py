"""The switch LEDGER_CI, tried on small test files in a child run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

TRIAL = """
import pytest

def test_plain():
    pass

@pytest.mark.long
def test_long():
    pass

@pytest.fixture
def missing():
    pytest.skip("the server part is missing")

def test_with_a_fixture_that_skips(missing):
    pass

@pytest.mark.skip(reason="because")
def test_marked():
    pass
"""

SKIPPED_MODULE = """
import pytest

pytest.skip("the whole module", allow_module_level=True)
"""


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    long: takes long\n")
    (tmp_path / "test_trial.py").write_text(TRIAL)
    return tmp_path


def _run(folder: Path, *arguments: str, ci: str | None) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if name != "LEDGER_CI"}
    environment |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if ci is not None:
        environment["LEDGER_CI"] = ci
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.ci", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_an_everyday_run_leaves_long_tests_out_and_allows_skips(trial: Path) -> None:
    status, printed = _run(trial, ci=None)
    assert status == 0, printed
    assert "1 passed, 2 skipped, 1 deselected" in printed


def test_a_ci_run_takes_long_tests_in_and_fails_each_skip(trial: Path) -> None:
    status, printed = _run(trial, ci="1")
    assert status == 1, printed
    assert "2 passed, 2 errors" in printed
    assert "the server part is missing" in printed


def test_a_ci_run_fails_skips_in_parallel_workers_too(trial: Path) -> None:
    status, printed = _run(trial, "-p", "xdist", "-n", "2", ci="1")
    assert status == 1, printed
    assert "2 passed" in printed
    assert "the server part is missing" in printed


def test_a_ci_run_fails_a_module_that_skips_itself(trial: Path) -> None:
    (trial / "test_skipped_module.py").write_text(SKIPPED_MODULE)
    status, printed = _run(trial, ci="1")
    assert status == 2, printed
    assert "the whole module" in printed


def test_a_long_test_runs_when_it_is_asked_for(trial: Path) -> None:
    for asked in (["-m", "long"], ["test_trial.py::test_long"]):
        status, printed = _run(trial, *asked, ci=None)
        assert status == 0, printed
        assert "1 passed" in printed


def test_an_unclear_value_of_the_switch_is_refused(trial: Path) -> None:
    status, printed = _run(trial, ci="yes")
    assert status == 4, printed
    assert "it may be 1, 0 or unset" in printed
