"""Migrated databases that are emptied and lent again: making and dropping one takes far longer than
most tests."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Final

import psycopg

from ledger.store.opening import open_store
from tests.support.postgres.databases import ReachablePostgres
from tests.support.postgres.server import PostgresServer

_SHAPE: Final = """
SELECT md5(string_agg(line, E'\\n' ORDER BY line)) FROM (
  SELECT format('%s %s %s %s', oid, relname, relkind, reloptions) AS line FROM pg_class
    WHERE relnamespace = 'public'::regnamespace
  UNION ALL SELECT format('%s %s %s %s %s', attrelid, attname, atttypid, attnotnull, attisdropped)
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace = 'public'::regnamespace
  UNION ALL SELECT format('%s %s', conrelid, pg_get_constraintdef(oid)) FROM pg_constraint
  UNION ALL SELECT format('%s %s', tgrelid, tgname) FROM pg_trigger
  UNION ALL SELECT format('%s %s', oid, proname) FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace
  UNION ALL SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_(temp|toast)'
  UNION ALL SELECT setconfig::text FROM pg_db_role_setting
    JOIN pg_database ON pg_database.oid = setdatabase WHERE datname = current_database()
  UNION ALL SELECT to_jsonb(schema_migrations)::text FROM schema_migrations
) AS lines
"""
"""Everything that a test may have changed of a database besides its rows."""

_CUT_OFF: Final = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""

# A table of some size is cheaper to cut off than to delete from; for a small one it is dearer.
_EMPTY: Final = """
DO $$ DECLARE held regclass; BEGIN
  FOR held IN SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace
    AND relkind = 'r' AND relname <> 'schema_migrations' AND pg_relation_size(oid) > 0
  LOOP
    IF pg_relation_size(held) > 1000000 THEN EXECUTE format('TRUNCATE %s', held);
    ELSE EXECUTE format('DELETE FROM %s', held); END IF;
  END LOOP;
END $$
"""


class EmptiedDatabases:
    """Databases of one server: each is migrated, without rows, and lent to one test at a time."""

    def __init__(self, server: PostgresServer | ReachablePostgres) -> None:
        self._server = server
        self._made: dict[str, str] = {}
        self._free: list[str] = []
        self._shape: dict[str, object] = {}

    def lend(self) -> str:
        """The dsn of one."""
        if self._free:
            return self._free.pop()
        name = f"ledger_test_{secrets.token_hex(6)}"
        dsn = self._server.create_database(name)
        self._made[dsn] = name
        store = open_store(dsn)
        try:
            store.migrate()
        finally:
            store.close()
        with psycopg.connect(dsn) as connection:
            self._shape[dsn] = _shape(connection)
        return dsn

    def take_back(self, dsn: str) -> None:
        """Cuts off whoever is still connected and empties it; one whose shape was changed, or that
        cannot be emptied, is dropped."""
        with suppress(psycopg.Error):
            if self._empty(dsn):
                self._free.append(dsn)
                return
        self._server.drop_database(self._made.pop(dsn))

    def drop_all(self) -> None:
        """Drops every one."""
        for name in self._made.values():
            self._server.drop_database(name)

    def _empty(self, dsn: str) -> bool:
        with psycopg.connect(dsn, options="-c lock_timeout=10s") as connection:
            # Nothing of a test's rows has to survive a crash of the server.
            connection.execute("SET synchronous_commit = off")
            ended = connection.execute(_CUT_OFF).fetchall()
            if not all(gone for (gone,) in ended) or _shape(connection) != self._shape[dsn]:
                return False
            connection.execute(_EMPTY)
        return True


def _shape(connection: psycopg.Connection[tuple[object, ...]]) -> object:
    row = connection.execute(_SHAPE).fetchone()
    assert row is not None
    return row[0]
