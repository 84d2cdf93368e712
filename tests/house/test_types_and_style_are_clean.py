"""mypy --strict and ruff, with the settings of pyproject.toml, over everything that is ours."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest

from tests.house.sources import PLACES, ROOT

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]


def _run(*arguments: str) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


def _present(*places: str) -> list[str]:
    return [place for place in places if (ROOT / place).exists()]


def test_ruff_finds_nothing() -> None:
    status, printed = _run("ruff", "check", "--no-cache", "--output-format=concise", ".")
    assert status == 0, printed


def test_every_file_is_formatted() -> None:
    status, printed = _run("ruff", "format", "--no-cache", "--check", ".")
    assert status == 0, printed


@pytest.mark.timeout(600)
def test_mypy_in_its_strict_form_finds_nothing() -> None:
    places = _present(*(place for place in PLACES if place != "protos"), "protos/generate.py")
    status, printed = _run("mypy", *places)
    assert status == 0, printed


def test_mypy_is_strict_and_nothing_of_ours_is_exempt() -> None:
    settings = SETTINGS["mypy"]
    assert settings["strict"] is True
    loosened = {name for override in settings["overrides"] for name in override["module"]}
    ours = tuple(place.removesuffix(".py") for place in PLACES)
    assert not [name for name in loosened if name.partition(".")[0] in ours]
    assert not {"exclude", "ignore_errors", "disable_error_code"} & settings.keys()
    assert SETTINGS["ruff"]["extend-exclude"] == ["ledger/v1"]
