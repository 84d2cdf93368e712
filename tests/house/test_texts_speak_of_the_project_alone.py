"""What no committed text may hold: paths of one machine, hosts of package indexes, secrets."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache

import pytest

from tests.house.sources import ROOT

# Each pattern is written so that it does not match its own line.
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.<>}])/(?:work|home|root|Users|mnt)/[a-z]"),
    "the host of a package index": re.compile(
        r"(?i)\b(?:files\.pythonhosted|pypi|registry\.npmjs|deb\.debian)\.(?:org|com)\b"
    ),
    "a private key": re.compile(r"-----BEGIN (?:[A-Z]+ )?PRIVATE" + r" KEY-----"),
    "a merge conflict": re.compile(r"(?m)^(?:<{7}|>{7}) "),
}

BINARY_SUFFIXES = (".db", ".sqlite", ".binpb", ".gz", ".zip", ".png")


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """(path, text) of every tracked or not ignored text file of the checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = []
    for path in listed.rstrip("\0").split("\0"):
        file = ROOT / path
        if file.is_file() and not path.endswith(BINARY_SUFFIXES):
            found.append((path, file.read_text(encoding="utf-8", errors="replace")))
    return tuple(found)


def forbidden(text: str) -> Iterator[tuple[int, str]]:
    """(line, what) of each forbidden thing in a text."""
    for what, pattern in FORBIDDEN.items():
        for match in pattern.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, what


def test_no_committed_text_holds_what_belongs_elsewhere() -> None:
    found = [f"{path}:{line}: {what}" for path, text in texts() for line, what in forbidden(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "see /wo" + "rk/main/x",
        "cd /" + "home/ada",
        "https://py" + "pi.org/simple",
        "-----BEGIN PRIVATE" + " KEY-----",
        "<" * 7 + " HEAD",
    ],
)
def test_a_forbidden_text_is_found(text: str) -> None:
    assert list(forbidden(text))


def test_the_checkout_has_texts_to_read() -> None:
    assert {"README.md", "pyproject.toml", "tests/house/sources.py"} <= {
        path for path, _ in texts()
    }
