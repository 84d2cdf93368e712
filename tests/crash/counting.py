"""What the crash tests counted, summed at the end of a run, whichever worker counted it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final

import pytest

MATRIX: Final = "crash matrix"
SEQUENCES: Final = "death sequences"


@dataclass(frozen=True, slots=True)
class Counts:
    """`effects` are distinct keys that the world saw; `occurrences` deaths in a cell's window."""

    cells: int = 0
    occurrences: int = 0
    deaths: int = 0
    runs: int = 0
    effects: int = 0
    entries: int = 0

    def told(self) -> dict[str, int]:
        """For a test's properties."""
        return asdict(self)

    def plus(self, told: Mapping[str, int]) -> Counts:
        """The sum with what another test told."""
        return Counts(**{f.name: getattr(self, f.name) + told[f.name] for f in fields(self)})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each kind of test and store."""
    sums: defaultdict[tuple[str, str], Counts] = defaultdict(Counts)
    for report in terminalreporter.stats.get("passed", []):
        store = "postgres" if "[postgres" in report.nodeid else "sqlite"
        for name, told in report.user_properties:
            if report.when == "call" and name in (MATRIX, SEQUENCES):
                sums[name, store] = sums[name, store].plus(told)
    for (name, store), counts in sorted(sums.items()):
        words = ", ".join(f"{number} {what}" for what, number in counts.told().items())
        terminalreporter.write_line(f"{name} on {store}: {words}")
