"""Fixtures for tests that need PostgreSQL; list this module in `pytest_plugins`.

One server per test process (so one per pytest-xdist worker), started when the first test asks for
it. With LEDGER_TEST_POSTGRES_DSN set, the databases are made on that server instead; with
LEDGER_TEST_POSTGRES_BIN, the server runs from that folder's programs.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest

from tests.support.postgres import PostgresServer, ReachablePostgres, binaries
from tests.support.postgres.emptied import EmptiedDatabases

DSN_VARIABLE = "LEDGER_TEST_POSTGRES_DSN"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer | ReachablePostgres]:
    """The server that all tests of this process share; none may stop it or change its settings."""
    if dsn := os.environ.get(DSN_VARIABLE):
        yield ReachablePostgres(dsn)
        return
    with PostgresServer(None, binaries()[0]) as server:
        yield server


@pytest.fixture
def postgres_dsn(postgres_server: PostgresServer | ReachablePostgres) -> Iterator[str]:
    """The dsn of an empty database of this test's own, never used again."""
    name = f"ledger_test_{secrets.token_hex(6)}"
    yield postgres_server.create_database(name)
    if isinstance(postgres_server, ReachablePostgres):  # ours goes as a whole, and much quicker
        postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def emptied_databases(
    postgres_server: PostgresServer | ReachablePostgres,
) -> Iterator[EmptiedDatabases]:
    """The migrated databases that the tests of this process are lent in turn."""
    made = EmptiedDatabases(postgres_server)
    yield made
    if isinstance(postgres_server, ReachablePostgres):
        made.drop_all()


@pytest.fixture
def migrated_postgres_dsn(emptied_databases: EmptiedDatabases) -> Iterator[str]:
    """The dsn of a migrated database without rows, lent to this test alone."""
    dsn = emptied_databases.lend()
    yield dsn
    emptied_databases.take_back(dsn)


@pytest.fixture
def own_postgres_server() -> Iterator[PostgresServer]:
    """A started server of this test's own, to stop, kill and restart; takes a second or two.

    Always one of ours, whatever LEDGER_TEST_POSTGRES_DSN says: nobody else's server is killed."""
    with PostgresServer(None, binaries()[0]) as server:
        yield server
