"""Migrations: once, by whoever comes first, and never over another build's."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ledger.store.errors import WrongSchema
from ledger.store.interface import Store
from ledger.store.migrate import Migration, missing_migrations, statements_of
from ledger.store.tables import HEADS, RUNS, Column, Table
from tests.support.rows import append_one, make_head, row, size
from tests.support.stores import OpenAgain

ROOT = Path(__file__).resolve().parents[2]
INITIAL = "0001_initial"
EVERY = [INITIAL, "0002_access"]

# The table in which migrations are noted, in the words of the store itself.
MIGRATIONS = Table(
    "schema_migrations",
    (Column("name", "text"), Column("digest", "text"), Column("applied_us", "int")),
    ("name",),
)

MIGRATES = """
import os, sys
from ledger.store.opening import open_store

store = open_store(os.environ["STORE_URL"])
print(",".join(store.migrate()))
store.close()
"""


def test_migrating_again_does_nothing(open_again: OpenAgain) -> None:
    store = open_again()
    assert store.migrate() == EVERY
    assert store.migrate() == []
    make_head(store)
    append_one(store)
    assert open_again().migrate() == []
    assert size(store) == 1


def test_several_that_migrate_at_once_do_it_once(open_again: OpenAgain) -> None:
    stores = [open_again() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda each: each.migrate(), stores))
    assert sorted(name for names in done for name in names) == EVERY
    stores[0].check()


def test_several_processes_that_migrate_at_once_do_it_once(store_url: str) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", MIGRATES],
            cwd=ROOT,
            env={**os.environ, "STORE_URL": store_url},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    said = [child.communicate(timeout=60)[0].strip() for child in children]
    assert sorted(name for names in said if names for name in names.split(",")) == EVERY
    assert [child.returncode for child in children] == [0, 0, 0]


def test_a_migrated_store_passes_its_check(store: Store, open_again: OpenAgain) -> None:
    store.check()
    again = open_again()
    again.check()
    assert again.migrate() == []


def test_a_database_that_was_not_migrated_is_refused(open_again: OpenAgain) -> None:
    store = open_again()
    with pytest.raises(WrongSchema):
        store.check()
    with pytest.raises(WrongSchema), store.append(1):
        raise AssertionError("the block was entered")
    with pytest.raises(WrongSchema), store.change() as changing:
        changing.insert(RUNS, [row(RUNS, 1)])
    with pytest.raises(WrongSchema), store.read() as reading:
        reading.get(HEADS, [(1,)])
    assert store.migrate() == EVERY


def test_a_migration_with_another_content_is_refused(store: Store) -> None:
    with store.change() as changing:
        assert changing.update(MIGRATIONS, {"digest": "0" * 64}, equal={"name": INITIAL}) == 1
    with pytest.raises(WrongSchema, match="another content"):
        store.check()
    with pytest.raises(WrongSchema, match="another content"):
        store.migrate()


def test_a_migration_of_a_newer_build_is_refused(store: Store) -> None:
    with store.change() as changing:
        changing.insert(MIGRATIONS, [("9999_later", "0" * 64, 0)])
    with pytest.raises(WrongSchema, match="9999_later"):
        store.check()
    with pytest.raises(WrongSchema, match="9999_later"):
        store.migrate()


KNOWN = [Migration(name, digest=name * 2, statements=()) for name in ("1", "2", "3")]


def test_what_is_missing_is_what_comes_after() -> None:
    assert [it.name for it in missing_migrations(KNOWN, {})] == ["1", "2", "3"]
    assert [it.name for it in missing_migrations(KNOWN, {"1": "11", "2": "22"})] == ["3"]
    assert missing_migrations(KNOWN, {"1": "11", "2": "22", "3": "33"}) == ()


def test_a_migration_that_was_left_out_is_refused() -> None:
    with pytest.raises(WrongSchema, match="left out"):
        missing_migrations(KNOWN, {"1": "11", "3": "33"})


def test_statements_end_where_a_line_ends_with_a_semicolon() -> None:
    text = "-- why\nCREATE TABLE a (\n  b text\n);\n\nCREATE INDEX c ON a (b); \nDROP TABLE a;\n"
    assert list(statements_of(text)) == [
        "CREATE TABLE a (\n  b text\n);",
        "CREATE INDEX c ON a (b); \nDROP TABLE a;",
    ]
    with pytest.raises(ValueError, match="semicolon"):
        list(statements_of("CREATE TABLE a (b text)"))
