"""What an installer gets: the wheel, its command, and a base install without the server."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.house.sources import ROOT
from tests.support.checkouts import fresh_checkout

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The names in the wheel that a fresh checkout builds to; metadata files with their text."""
    folder = tmp_path_factory.mktemp("wheel")
    checkout = fresh_checkout(folder / "checkout")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=checkout,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as opened:
        return {
            name: opened.read(name).decode("utf-8") if ".dist-info/" in name else ""
            for name in opened.namelist()
        }


def _wanted(package: str) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", package],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {name for name in listed.split("\0") if name and (ROOT / name).is_file()}


def test_the_wheel_holds_both_packages_and_the_server_and_nothing_else(
    wheel: dict[str, str],
) -> None:
    tops = {name.partition("/")[0] for name in wheel if ".dist-info/" not in name}
    assert tops <= {"ledger", "projections", "server.py"}
    held = {name for name in wheel if ".dist-info/" not in name}
    assert held == _wanted("ledger") | _wanted("projections") | _wanted("server.py")
    assert "ledger/py.typed" in held


def test_the_wheel_brings_the_command_and_the_licence(wheel: dict[str, str]) -> None:
    texts = {Path(name).name: text for name, text in wheel.items() if text}
    assert "ledger = ledger.cli:main" in texts["entry_points.txt"]
    assert "License-Expression: Apache-2.0" in texts["METADATA"]
    assert "Version 2.0, January 2004" in texts["LICENSE"]


def test_the_base_install_asks_for_no_server_part() -> None:
    base = {_name(line) for line in PROJECT["dependencies"]}
    extras = PROJECT["optional-dependencies"]
    behind_extras = {_name(line) for line in (*extras["server"], *extras["postgres"])}
    assert base.isdisjoint(behind_extras)
    assert len(base) <= 9


def _name(requirement: str) -> str:
    for at, character in enumerate(requirement):
        if not (character.isalnum() or character in "-_."):
            return requirement[:at].lower()
    return requirement.lower()


def test_the_changelog_speaks_of_the_version_being_packaged() -> None:
    assert PROJECT["version"] in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
