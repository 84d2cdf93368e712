"""What the environment variable LEDGER_CI changes in a test run.

Without it, tests marked `long` are deselected, unless they are asked for by `-m` or by node id.
With `LEDGER_CI=1` they run, and a skip is a failure: a test that could not run proved nothing, and
the machine that decides about a change must provide what each test needs.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

VARIABLE = "LEDGER_CI"


def in_ci() -> bool:
    """Whether LEDGER_CI is set to 1; any other value than empty, 0 or 1 is refused."""
    value = os.environ.get(VARIABLE, "")
    if value not in {"", "0", "1"}:
        raise pytest.UsageError(f"{VARIABLE} is {value!r}; it may be 1, 0 or unset")
    return value == "1"


def pytest_report_header() -> str:
    """Says in the run's first lines which groups it holds."""
    if in_ci():
        return f"{VARIABLE}=1: long tests run, a skip is a failure"
    return f"{VARIABLE} unset: tests marked long are left out"


def _asked_for_by_name(config: pytest.Config) -> bool:
    chosen = "long" in config.getoption("markexpr", default="").split()
    return chosen or any("::" in argument for argument in config.args)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the long group in an everyday run; the closing line counts what was left out."""
    if in_ci() or _asked_for_by_name(config):
        return
    left_out = [item for item in items if item.get_closest_marker("long") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("long") is None]


def _reason(longrepr: object) -> str:
    match longrepr:
        case (path, line, reason):
            return f"{path}:{line}: {reason}"
        case _:
            return str(longrepr)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns the skip of a test, or of a fixture it needs, into a failure in CI."""
    report = yield
    # An expected failure also reports "skipped", but it did run: strict xfail keeps it honest.
    if in_ci() and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where {VARIABLE}=1 allows no skip: {_reason(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turns the skip of a whole module into a collection error in CI."""
    report = yield
    if in_ci() and report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = f"skipped where {VARIABLE}=1 allows no skip: {_reason(report.longrepr)}"
    return report
