"""The commands that README.md and the pages under docs/ tell a reader to paste.

A fenced block in a shell language, or in Python, is directly preceded by one HTML comment that says
what becomes of it:

    <!-- run by: PATH as NAME -->               PATH is `.ci/run`, which extracts the block by NAME
    <!-- run by: PATH::TEST as NAME -->         TEST takes the block by `documented(page, NAME)`
    <!-- not run: REASON -->                    nobody runs it here, and why

So a page and what runs it can never differ: the text stands once, in the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNNABLE = frozenset({"sh", "bash", "shell", "console", "python"})

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<language>[^`\n]*)$")
_RUN_BY = re.compile(r"^<!-- run by: (?P<place>\S+) as (?P<name>[a-z0-9-]+) -->$")
_NOT_RUN = re.compile(r"^<!-- not run: (?P<reason>\S.*\S) -->$")


class PageFault(Exception):
    """A page breaks the form above; the message names `page:line` and the fault."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `place` and `name` are set if it is run, `reason` if it is not."""

    page: str
    line: int
    language: str
    text: str
    place: str | None = None
    name: str | None = None
    reason: str | None = None

    @property
    def runnable(self) -> bool:
        """Whether a reader would paste it into a shell or an interpreter."""
        return self.language in RUNNABLE


def pages() -> list[str]:
    """README.md and every page under docs/ and tests/, relative to the checkout."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").glob("*.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def blocks(page: str, text: str) -> Iterator[Block]:
    """Every fenced block of a page in order. Raises PageFault for one that is never closed."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if opening is None:
            at += 1
            continue
        end = _closing(lines, at, opening["fence"])
        if end is None:
            raise PageFault(f"{page}:{at + 1}: this block is never closed")
        indent = len(opening["indent"])
        body = "\n".join(line[indent:] for line in lines[at + 1 : end])
        marks = _marks(lines[at - 1].strip()) if at else {}
        yield Block(page, at + 1, opening["language"].strip(), body, **marks)
        at = end + 1


def _closing(lines: list[str], opened: int, fence: str) -> int | None:
    for at in range(opened + 1, len(lines)):
        if lines[at].strip() == fence:
            return at
    return None


def _marks(line: str) -> dict[str, str]:
    found = _RUN_BY.match(line) or _NOT_RUN.match(line)
    return found.groupdict() if found else {}


@cache
def _named(page: str) -> dict[str, str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return {block.name: block.text for block in blocks(page, text) if block.name is not None}


def documented(page: str, name: str) -> str:
    """The text of the block of `page` that is marked `as name`. Raises PageFault if there is none.

    A test that runs what a page says takes the text from here and never repeats it.
    """
    try:
        return _named(page)[name]
    except KeyError:
        raise PageFault(f"{page} has no block marked 'as {name}'") from None
