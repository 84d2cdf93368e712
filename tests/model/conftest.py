"""Gives this group one database a store at a clock that stands still, and tells what was run."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.model.door import StillHouse


@pytest.fixture(
    scope="session",
    params=["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.long])],
)
def still_house(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StillHouse]:
    """One database for all histories of this process; each history is a tenant of its own."""
    folder = tmp_path_factory.mktemp("model")
    if request.param == "sqlite":
        made = StillHouse(f"sqlite://{folder}/ledger.db", folder)
        yield made
        made.close()
        return
    server = request.getfixturevalue("postgres_server")
    name = f"ledger_test_{secrets.token_hex(6)}"
    made = StillHouse(server.create_database(name), folder)
    yield made
    made.close()
    server.drop_database(name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each test that ran histories: which seeds, and how many steps."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, told in getattr(report, "user_properties", ()):
                if name == "histories" and report.when == "call":
                    terminalreporter.write_line(f"{report.nodeid}: {told}")
