"""Servers for tests. Each test that writes ends with a verification of what it wrote.

Most tests share one server a store, each with runs of its own (`run`): what is new is verified
after each test, and the whole log once more at the server's end. A test that stops, kills or
configures a server starts its own (`start_server`), whose whole log is verified.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledger.v1 import log_service_pb2 as log_pb
from tests.support.calls import Calls
from tests.support.followed_log import followed_log
from tests.support.postgres import PostgresServer, ReachablePostgres
from tests.support.server_process import LedgerServer
from tests.support.whole_log import verify_whole_log

StartServer = Callable[..., LedgerServer]
"""Called with settings by their variables' names; starts a server on the test's store."""


@pytest.fixture(scope="session")
def sqlite_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerServer]:
    """The server on SQLite that the tests of this process share."""
    server = LedgerServer(tmp_path_factory.mktemp("server-sqlite"))
    try:
        yield server.start()
        verify_whole_log(server)
    finally:
        server.close()


@pytest.fixture(scope="session")
def postgres_ledger(
    postgres_server: PostgresServer | ReachablePostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LedgerServer]:
    """The server on PostgreSQL that the tests of this process share."""
    name = f"ledger_test_{secrets.token_hex(6)}"
    dsn = postgres_server.create_database(name)
    server = LedgerServer(tmp_path_factory.mktemp("server-postgres"), dsn)
    try:
        yield server.start()
        verify_whole_log(server)
    finally:
        server.close()
        postgres_server.drop_database(name)


@pytest.fixture(
    params=["sqlite_server", pytest.param("postgres_ledger", marks=pytest.mark.postgres)]
)
def running_server(request: pytest.FixtureRequest) -> Iterator[LedgerServer]:
    """A server that serves, on each store. What is new in its log is verified after the test."""
    server: LedgerServer = request.getfixturevalue(request.param)
    yield server
    followed_log(server).verify_new()


@pytest.fixture
def start_server(store_url: str, tmp_path: Path) -> Iterator[StartServer]:
    """Starts servers on the test's own store, each kind in turn; the log is verified at the end."""
    started: list[LedgerServer] = []

    def start(**settings: str) -> LedgerServer:
        server = LedgerServer(tmp_path / "server", store_url, settings=settings)
        started.append(server)
        return server.start()

    try:
        yield start
        if started:
            last = started[-1]
            verify_whole_log(last if last.is_running else last.start())
    finally:
        for server in started:
            server.close()


@pytest.fixture
def run() -> str:
    """A run id that no other test has."""
    return f"run-{secrets.token_hex(6)}"


@pytest.fixture
def runtime(running_server: LedgerServer) -> Iterator[Calls]:
    """The embedded runtime's calls."""
    calls = Calls(running_server)
    yield calls
    calls.close()


@pytest.fixture
def admin(running_server: LedgerServer) -> Iterator[Calls]:
    """The embedded admin's calls."""
    calls = Calls(running_server, "admin")
    yield calls
    calls.close()


@pytest.fixture
def reviewer(running_server: LedgerServer) -> Iterator[Calls]:
    """The embedded reviewer's calls."""
    calls = Calls(running_server, "reviewer")
    yield calls
    calls.close()


@pytest.fixture
def log_size(admin: Calls) -> Callable[[], int]:
    """How many entries the log has now."""

    def size() -> int:
        page = admin.call("ListEntries", log_pb.ListEntriesRequest(page_size=1))
        return int(page.size)

    return size
