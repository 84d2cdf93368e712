"""Real stores for tests: every test that takes `store` runs on SQLite and on PostgreSQL.

`store` is empty but migrated. `open_again` opens the same database once more, as another process
would; `store_url` names it, for children. Every store is closed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledger.store.interface import Store
from ledger.store.opening import open_store
from ledger.store.settings import StoreSettings

OpenAgain = Callable[..., Store]
"""Called with settings, or with nothing."""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database without rows. It is not migrated, unless the test takes what
    migrates it anyway: a PostgreSQL database that is migrated is lent, and need not be made."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/ledger.db"
    migrates = {"store", "start_server", "new_server"}.intersection(request.fixturenames)
    dsn: str = request.getfixturevalue("migrated_postgres_dsn" if migrates else "postgres_dsn")
    return dsn


@pytest.fixture
def open_again(store_url: str) -> Iterator[OpenAgain]:
    """Opens the test's database; each call gives a store with connections of its own."""
    opened: list[Store] = []

    def open_it(settings: StoreSettings | None = None) -> Store:
        opened.append(open_store(store_url, settings))
        return opened[-1]

    yield open_it
    for each in opened:
        each.close()


@pytest.fixture
def store(open_again: OpenAgain) -> Store:
    """A migrated, empty store."""
    made = open_again()
    made.migrate()
    return made
