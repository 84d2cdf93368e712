"""Servers for deaths: `nursery` forks them, `mortal` is one on each store; `supervisor` keeps one
of them and its clients alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.counting import pytest_terminal_summary  # noqa: F401 - a hook
from tests.crash.mortal_server import MortalServer
from tests.crash.supervisor import Supervisor
from tests.support.nursery import Nursery

NewServer = Callable[..., MortalServer]
"""Called with a store's address, and settings by their variables' names; not started."""


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    made = Nursery("tests.crash.dying_server")
    yield made
    made.close()


@pytest.fixture
def new_server(nursery: Nursery, tmp_path: Path) -> Iterator[NewServer]:
    made: list[MortalServer] = []

    def make(store_url: str, **settings: str) -> MortalServer:
        folder = tmp_path / f"server-{len(made)}"
        made.append(MortalServer(nursery, folder, store_url, settings=settings))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def mortal(new_server: NewServer, store_url: str) -> MortalServer:
    """A server that serves, on each store in turn."""
    server = new_server(store_url)
    server.start()
    return server


@pytest.fixture(scope="session")
def clients() -> Iterator[Nursery]:
    """Forks runtimes and confirmers."""
    made = Nursery("tests.crash.dying_runtime")
    yield made
    made.close()


@pytest.fixture
def supervisor(mortal: MortalServer, clients: Nursery, tmp_path: Path) -> Iterator[Supervisor]:
    """On each store in turn. The log is verified at the end of the test that uses it."""
    made = Supervisor(mortal, clients, tmp_path / "world")
    yield made
    made.close()
