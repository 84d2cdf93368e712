"""The option `--minutes`: what each group of tests costs, printed at the end of a run.

    python -m pytest -n 2 --minutes

A group's minutes are the seconds of its tests and fixtures, summed over the workers and divided by
their number: what the group adds to a run whose workers are busy all the time. A fixture that a
whole worker shares counts where it is made.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import pytest

_NAME = "minutes-by-group"


# Compared by identity: pytest keeps its plugins in a set.
@dataclass(slots=True, eq=False)
class Minutes:
    """Sums what the reports of a run say."""

    workers: int
    _tests: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds a test's set-up, call or tear-down to its group."""
        group = group_of(report.nodeid)
        self._seconds[group] += report.duration
        self._tests[group] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints a line for each group, the dearest first."""
        terminalreporter.write_sep("=", f"minutes on {self.workers} workers")
        dearest_first = sorted(self._seconds.items(), key=lambda each: -each[1])
        for group, seconds in dearest_first:
            terminalreporter.write_line(self._line(group, self._tests[group], seconds))
        total = self._line("all", sum(self._tests.values()), sum(self._seconds.values()))
        terminalreporter.write_line(total)

    def _line(self, group: str, tests: int, seconds: float) -> str:
        return f"{group:12} {tests:6} tests {seconds / 60 / self.workers:7.2f} minutes"


def group_of(nodeid: str) -> str:
    """The folder below `tests/` that a test stands in."""
    places = nodeid.partition("::")[0].split("/")
    return places[1] if len(places) > 2 else places[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--minutes`."""
    parser.addoption("--minutes", action="store_true", help="print what each group of tests costs")


def pytest_configure(config: pytest.Config) -> None:
    """Counts in the process that hears of all tests, and only where it was asked for."""
    if config.getoption("--minutes") and not hasattr(config, "workerinput"):
        workers = config.getoption("numprocesses", default=None) or 1
        config.pluginmanager.register(Minutes(int(workers)), _NAME)
