"""What a command writes: readable text for people, one JSON object a line for programs.

With `--json` standard output holds JSON lines and nothing else, and its last line is final: the
object itself, a count, or an error. Everything meant for people goes to standard error then.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ledger.cli.rows import Column, Rows
from ledger.cli.stops import Stop

PIPED_WIDTH: Final = 240
"""Columns where nothing is a terminal: wide enough that no id is broken over two lines."""

STYLES: Final[dict[str, str]] = {
    "PLANNED": "cyan",
    "STARTED": "yellow",
    "SUCCEEDED": "green",
    "FAILED": "red",
    "NO_EFFECT": "dim",
    "UNKNOWN": "bold red",
    "RECONCILED_EXECUTED": "green",
    "RECONCILED_NOT_EXECUTED": "magenta",
    "WITHDRAWN": "dim",
    "OPEN": "yellow",
    "COMPLETED": "green",
    "CANCELLED": "magenta",
    "VERIFIED": "bold green",
    "VERIFIED_REDACTED": "bold green",
    "INCOMPLETE": "bold yellow",
    "UNVERIFIABLE": "bold yellow",
}


@dataclass(frozen=True, slots=True)
class Screen:
    """Where one command writes. `machine` is true where `--json` was asked for."""

    machine: bool
    out: Console
    err: Console

    @classmethod
    def of(cls, *, machine: bool, no_color: bool) -> Screen:
        """The screen of this process."""
        return cls(
            machine, console(sys.stdout, no_color=no_color), console(sys.stderr, no_color=no_color)
        )

    def item(self, item: Mapping[str, object]) -> None:
        """One JSON line; nothing without `--json`."""
        if self.machine:
            print_json(item)

    def final(self, item: Mapping[str, object]) -> None:
        """The last JSON line; nothing without `--json`."""
        self.item(item)

    def say(self, *parts: str | Text | Table | Rows) -> None:
        """Text for people; nothing with `--json`. No line of text is broken: it can be pasted."""
        if self.machine:
            return
        for part in parts:
            for line in _lines(part, self.out):
                self.out.print(line, highlight=False, markup=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """A remark for people that is no part of the answer; on standard error with `--json`."""
        (self.err if self.machine else self.out).print(Text(text, "dim"), highlight=False)

    def stop(self, stop: Stop) -> None:
        """Say why the command ended without doing what it was asked for."""
        if self.machine:
            print_json({"error": stop.as_json()})
            return
        self.err.print(Text.assemble(("error: ", "bold red"), stop.what), highlight=False)
        for label, words in (("safe now: ", stop.safe), ("do next:  ", stop.next)):
            if words:
                self.err.print(Text.assemble(("  " + label, "bold"), words), highlight=False)


def console(stream: IO[str], *, no_color: bool) -> Console:
    """A console without any escape codes where the stream is no terminal, NO_COLOR is set, or the
    caller wants none.
    """
    plain = no_color or bool(os.environ.get("NO_COLOR")) or not stream.isatty()
    width = shutil.get_terminal_size((PIPED_WIDTH, 24)).columns if not stream.isatty() else None
    if plain:
        return Console(file=stream, color_system=None, width=width, highlight=False, emoji=False)
    return Console(file=stream, width=width, highlight=False, emoji=False)


def print_json(item: Mapping[str, object]) -> None:
    """One object on one line of standard output, flushed."""
    sys.stdout.write(json.dumps(item, ensure_ascii=False, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def _lines(part: str | Text | Table | Rows, out: Console) -> list[str | Text]:
    """What is said, line by line; no line of a table ends in spaces."""
    match part:
        case Rows():
            return [*part.lines(out.width)]
        case Table():
            lines = list[str | Text]()
            for segments in out.render_lines(part, pad=False):
                line = Text.assemble(*((each.text, each.style or "") for each in segments))
                line.rstrip()
                lines.append(line)
            return lines
        case _:
            return [part]


def styled(word: str) -> Text:
    """A state, status or verdict in its colour."""
    return Text(word, STYLES.get(word, ""))


def table(*columns: str | Column) -> Rows:
    """A light table; a column that is only named may be folded."""
    return Rows(
        [each if isinstance(each, Column) else Column(each, folds=True) for each in columns]
    )


def stamp(when: datetime | None) -> str:
    """A time for programs: UTC, microseconds, `Z`; empty where there is none."""
    if when is None:
        return ""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def local(when: datetime | None, *, utc: bool = False) -> str:
    """A time for people: date, time to the second, and the zone's offset."""
    if when is None:
        return ""
    moment = when.astimezone(UTC if utc else None)
    return moment.strftime("%Y-%m-%d %H:%M:%S") + zone(moment)


def zone(moment: datetime) -> str:
    """The offset of an aware time, such as ` +02:00`."""
    offset = moment.strftime("%z")
    return f" {offset[:3]}:{offset[3:5]}"
