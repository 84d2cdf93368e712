"""Every page costs what its limit says: the database reads one index, in order, and stops."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from ledger.store import statements
from ledger.store.postgres import PostgresStore
from ledger.store.postgres_texts import begin_read, get_many, mark
from ledger.store.settings import StoreSettings
from ledger.store.sqlite import SqliteStore
from ledger.store.statements import PageShape
from ledger.store.tables import (
    ALL,
    DATA_KEYS,
    ENTRIES,
    HEADS,
    STEPS,
    TENANTS,
    Column,
    Kind,
    Table,
)
from ledger.store.values import columns_named
from tests.support.asked_pages import PAGES
from tests.support.postgres import PostgresServer, ReachablePostgres


@pytest.fixture(scope="module")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all: nothing here writes."""
    file = tmp_path_factory.mktemp("indexes") / "ledger.db"
    made = SqliteStore(file)
    made.migrate()
    made.close()
    return file


@pytest.fixture(scope="module")
def migrated_dsn(postgres_server: PostgresServer | ReachablePostgres) -> Iterator[str]:
    """One for all: nothing here writes. Never used before, so the planner has no statistics."""
    name = f"ledger_test_{secrets.token_hex(6)}"
    made = PostgresStore(postgres_server.create_database(name))
    made.migrate()
    made.close()
    yield postgres_server.dsn(name)
    postgres_server.drop_database(name)


@pytest.mark.parametrize("shape", PAGES.values(), ids=PAGES)
def test_sqlite_reads_a_page_from_one_index_in_order(sqlite_file: Path, shape: PageShape) -> None:
    text = statements.page(shape, lambda _position: "?")
    raw = sqlite3.connect(sqlite_file)
    plan = [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {text}", [1] * text.count("?"))]
    raw.close()
    assert plan[0].startswith(f"SEARCH {shape.table.name} USING"), plan
    assert len(plan) == 1, plan


@pytest.mark.postgres
@pytest.mark.parametrize("shape", PAGES.values(), ids=PAGES)
def test_postgres_reads_a_page_from_one_index_in_order(migrated_dsn: str, shape: PageShape) -> None:
    plan = _plan(migrated_dsn, statements.page(shape, mark), _page_kinds(shape))
    nodes = [line.strip(" ->") for line in plan if "->" in line or line == plan[0]]
    assert nodes[0] == "Limit", plan
    assert nodes[1].startswith(("Index Scan", "Index Only Scan")), plan
    assert len(nodes) == 2, plan


@pytest.mark.postgres
@pytest.mark.parametrize("lock", [False, True])
@pytest.mark.parametrize("table", ALL, ids=lambda it: it.name)
def test_postgres_finds_each_key_by_the_primary_key(
    migrated_dsn: str, table: Table, lock: bool
) -> None:
    kinds = [f"{_KINDS[it.kind]}[]" for it in columns_named(table, table.key)]
    plan = _plan(migrated_dsn, get_many(table, table.key, lock=lock), kinds)
    scans = [line for line in plan if "Scan" in line]
    assert len(scans) == 2, plan
    assert any(f"using {table.name}_pkey" in line for line in scans), plan


def _search(sqlite_file: Path, table: Table, names: tuple[str, ...]) -> str:
    """How SQLite finds the row of each of several keys: the one line that reads the table."""
    keys = 3
    text = statements.get_some(table, names, lambda _position: "?", keys)
    raw = sqlite3.connect(sqlite_file)
    plan = [line for *_, line in raw.execute(f"EXPLAIN QUERY PLAN {text}", [1] * len(names) * keys)]
    raw.close()
    found = [line for line in plan if f" {table.name}" in line]
    assert len(found) == 1, plan
    return str(found[0])


@pytest.mark.parametrize("table", ALL, ids=lambda it: it.name)
def test_sqlite_finds_a_key_by_the_primary_key(sqlite_file: Path, table: Table) -> None:
    plan = _search(sqlite_file, table, table.key)
    assert f"{table.name} USING PRIMARY KEY" in plan or f"sqlite_autoindex_{table.name}_1" in plan
    assert plan.count("=?") == len(table.key), plan


OTHER_KEYS = {
    "steps_step": (STEPS, ("tenant", "run", "step")),
    "entries_run_version": (ENTRIES, ("log", "run", "version")),
    "heads_origin": (HEADS, ("origin",)),
    "tenants_log": (TENANTS, ("log",)),
    "data_keys_owner": (DATA_KEYS, ("tenant", "owner", "open")),
}


@pytest.mark.parametrize("index", OTHER_KEYS)
def test_sqlite_finds_an_other_key_by_its_own_index(sqlite_file: Path, index: str) -> None:
    table, names = OTHER_KEYS[index]
    plan = _search(sqlite_file, table, names)
    assert f"{table.name} USING INDEX {index}" in plan
    assert plan.count("=?") == len(names), plan


@pytest.mark.postgres
@pytest.mark.parametrize("index", OTHER_KEYS)
def test_postgres_finds_each_other_key_by_its_own_index(migrated_dsn: str, index: str) -> None:
    table, names = OTHER_KEYS[index]
    kinds = [f"{_KINDS[it.kind]}[]" for it in columns_named(table, names)]
    plan = _plan(migrated_dsn, get_many(table, names, lock=False), kinds)
    assert any(f"using {index}" in line for line in plan), plan


_KINDS = {"int": "bigint", "text": "text", "bytes": "bytea"}


def _page_kinds(shape: PageShape) -> list[str]:
    names = [*shape.equal, *(shape.order if shape.resumes else ()), *shape.greater]
    return [*(_KINDS[it.kind] for it in columns_named(shape.table, tuple(names))), "bigint"]


def _plan(dsn: str, text: str, kinds: list[str]) -> list[str]:
    """The generic plan, as a prepared statement on a grown table gets it."""
    nulls = ", ".join(["NULL"] * len(kinds))
    with psycopg.connect(dsn, autocommit=True) as raw:
        raw.execute(begin_read(StoreSettings()).encode())
        raw.execute(f"PREPARE asked ({', '.join(kinds)}) AS {text}".encode())
        rows = raw.execute(f"EXPLAIN (COSTS OFF) EXECUTE asked ({nulls})".encode()).fetchall()
        raw.execute("ROLLBACK")
    return [row[0] for row in rows]


def test_sqlite_has_the_tables_as_they_are_named(sqlite_file: Path) -> None:
    raw = sqlite3.connect(sqlite_file)
    for table in ALL:
        found = raw.execute(f"PRAGMA table_info({table.name})").fetchall()
        kinds: dict[str, Kind] = {"INTEGER": "int", "TEXT": "text", "BLOB": "bytes"}
        columns = tuple(
            Column(name, kinds[kind], not needed) for _, name, kind, needed, *_ in found
        )
        key = [name for place, name in sorted((row[5], row[1]) for row in found) if place]
        assert (columns, tuple(key)) == (table.columns, table.key)
    names = raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    strict = raw.execute("SELECT name FROM pragma_table_list WHERE strict = 1").fetchall()
    raw.close()
    assert {name for (name,) in names} == {*(it.name for it in ALL), "schema_migrations"}
    assert set(strict) == set(names)


@pytest.mark.postgres
def test_postgres_has_the_tables_as_they_are_named(migrated_dsn: str) -> None:
    kinds: dict[str, Kind] = {"bigint": "int", "text": "text", "bytea": "bytes"}
    asked = (
        "SELECT column_name, data_type, is_nullable = 'YES', collation_name FROM"
        " information_schema.columns WHERE table_name = %s ORDER BY ordinal_position"
    )
    asked_key = (
        "SELECT attname FROM pg_index, unnest(indkey) WITH ORDINALITY AS k (number, place),"
        " pg_attribute WHERE indisprimary AND indrelid = %s::regclass AND attrelid = indrelid"
        " AND attnum = k.number ORDER BY place"
    )
    with psycopg.connect(migrated_dsn) as raw:
        for table in ALL:
            found = raw.execute(asked, [table.name]).fetchall()
            columns = tuple(Column(name, kinds[kind], null) for name, kind, null, _ in found)
            key = tuple(name for (name,) in raw.execute(asked_key, [table.name]))
            assert (columns, key) == (table.columns, table.key)
            assert {it[3] for it in found if it[1] == "text"} <= {"C"}
        names = raw.execute(
            "SELECT relname FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        ).fetchall()
        banned = raw.execute(
            "SELECT (SELECT count(*) FROM pg_trigger),"
            " (SELECT count(*) FROM pg_class WHERE relkind = 'S')"
        ).fetchone()
    assert {name for (name,) in names} == {*(it.name for it in ALL), "schema_migrations"}
    assert banned == (0, 0)
