"""Databases that tests are lent one after the other."""

from __future__ import annotations

import psycopg
import pytest

from ledger.store.opening import open_store
from tests.support.postgres import PostgresServer, ReachablePostgres
from tests.support.postgres.emptied import EmptiedDatabases
from tests.support.rows import append_one, make_head, size

pytestmark = pytest.mark.postgres


@pytest.fixture
def lent(postgres_server: PostgresServer | ReachablePostgres) -> EmptiedDatabases:
    return EmptiedDatabases(postgres_server)


def test_a_database_is_lent_again_without_the_rows_of_the_test_before(
    lent: EmptiedDatabases,
) -> None:
    dsn = lent.lend()
    store = open_store(dsn)
    assert store.migrate() == []
    make_head(store)
    append_one(store)
    with psycopg.connect(dsn) as forgotten:
        forgotten.execute("LOCK TABLE entries")
        lent.take_back(dsn)
        with pytest.raises(psycopg.OperationalError):
            forgotten.execute("SELECT 1")
    assert lent.lend() == dsn
    make_head(store)
    assert size(store) == 0
    store.close()
    lent.drop_all()


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE left_behind (number int)",
        "ALTER TABLE entries ADD COLUMN more int",
        "DROP INDEX {index}",
        "DELETE FROM schema_migrations",
    ],
)
def test_a_database_whose_shape_was_changed_is_not_lent_again(
    lent: EmptiedDatabases, change: str
) -> None:
    dsn = lent.lend()
    with psycopg.connect(dsn, autocommit=True) as raw:
        index = raw.execute(
            "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON oid = indrelid"
            " WHERE relnamespace = 'public'::regnamespace AND NOT indisunique"
        ).fetchone()
        raw.execute(change.format(index=index[0] if index else "no_index").encode())
    lent.take_back(dsn)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(dsn)
    assert lent.lend() != dsn
    lent.drop_all()
