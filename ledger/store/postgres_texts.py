"""SQL that only PostgreSQL understands: arrays as rows, row locks, settings of one transaction.

Every transaction brings its own settings, so that nothing depends on what a connection went through
before, be it behind a transaction pooler. The planner is kept to index scans: a plan that was
prepared while a table was empty must not read it whole when it has grown.
"""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import Final, Literal

from ledger.store import statements
from ledger.store.postgres_arrays import SQL_KIND
from ledger.store.settings import StoreSettings
from ledger.store.statements import listed
from ledger.store.tables import HEADS, Column, Table
from ledger.store.values import columns_named
from ledger.store.writes import Effect

CLOCK: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
"""The server's clock when the statement runs; the transaction's own now() stands still."""

Synchronous = Literal["on", "remote_apply"]

DURABILITY: Final = (
    "SELECT current_setting('fsync'), current_setting('full_page_writes'),"
    " current_setting('data_sync_retry'), current_setting('synchronous_commit'),"
    " current_setting('server_encoding'), current_setting('server_version_num')::int,"
    " pg_is_in_recovery()"
)

MAKE_MIGRATIONS_TABLE: Final = (
    'CREATE TABLE IF NOT EXISTS schema_migrations (name text COLLATE "C" PRIMARY KEY,'
    " digest text NOT NULL, applied_us bigint NOT NULL)"
)
MAKE_MIGRATIONS_LOCK: Final = (
    "INSERT INTO schema_migrations (name, digest, applied_us) VALUES ('', '', 0)"
    " ON CONFLICT DO NOTHING"
)
LOCK_MIGRATIONS: Final = "SELECT 1 FROM schema_migrations WHERE name = '' FOR UPDATE"
RECORD_MIGRATION: Final = (
    "INSERT INTO schema_migrations (name, digest, applied_us) VALUES ($1, $2, $3)"
)
WATCH: Final = "SELECT coalesce(sum(size), 0)::bigint FROM heads"

_PLANNER: Final = (
    "SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off;"
    " SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off;"
    " SET LOCAL enable_mergejoin = off; SET LOCAL jit = off"
)


def mark(position: int) -> str:
    """A parameter as PostgreSQL itself writes it."""
    return f"${position}"


def begin_change(settings: StoreSettings, synchronous: Synchronous) -> str:
    """Opens a write transaction; one round trip."""
    return (
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
        f" SET LOCAL synchronous_commit = {synchronous};"
        f" SET LOCAL idle_in_transaction_session_timeout = {settings.idle_ms_max};"
        f" SET LOCAL lock_timeout = {settings.lock_wait_ms_max};"
        f" SET LOCAL statement_timeout = {settings.statement_ms_max}; {_PLANNER}"
    )


def begin_append(settings: StoreSettings, synchronous: Synchronous, log: int) -> str:
    """Opens an append: head first, then the clock. A clock in the same select list would be read
    before the wait for the lock."""
    head = f"{statements.select_from(HEADS)} WHERE log = {log:d} FOR UPDATE"
    return f"{begin_change(settings, synchronous)}; {head}; {CLOCK}"


def begin_read(settings: StoreSettings) -> str:
    """Opens a read; the last statement takes the snapshot."""
    return (
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
        f" SET LOCAL statement_timeout = {settings.statement_ms_max}; {_PLANNER}; SELECT 1"
    )


@cache
def get_many(table: Table, names: tuple[str, ...], *, lock: bool) -> str:
    """SELECT of the rows whose named columns equal one of the rows that the arrays make.

    Locks are taken in the order of the primary key: two that lock the same rows do not deadlock."""
    keys = _unnest(columns_named(table, names), count(1))
    joined = " AND ".join(f"t.{name} = k.{name}" for name in names)
    text = (
        f"SELECT {listed(table.names, 't.')} FROM {keys} AS k ({listed(names)})"  # noqa: S608
        f" JOIN {table.name} AS t ON {joined}"
    )
    return f"{text} ORDER BY {listed(table.key, 't.')} FOR UPDATE OF t" if lock else text


@cache
def write_all(writes: tuple[tuple[Effect, Table], ...]) -> str:
    """One statement for writes on distinct tables: parameters are the arrays of each in turn."""
    positions = count(1)
    texts = [_write(effect, table, positions) for effect, table in writes]
    if len(texts) == 1:
        return texts[0]
    named = ", ".join(f"w{number} AS ({text})" for number, text in enumerate(texts[:-1]))
    return f"WITH {named} {texts[-1]}"


def _write(effect: Effect, table: Table, positions: count[int]) -> str:
    match effect:
        case "insert" | "upsert":
            rows = _unnest(table.columns, positions)
            text = f"{statements.insert_into(table)} SELECT * FROM {rows}"  # noqa: S608
            return text + statements.or_replace(table) if effect == "upsert" else text
        case "delete":
            keys = _unnest(columns_named(table, table.key), positions)
            gone = " AND ".join(f"t.{name} = k.{name}" for name in table.key)
            named = f"k ({listed(table.key)})"
            return f"{statements.delete_from(table)} AS t USING {keys} AS {named} WHERE {gone}"


def _unnest(columns: tuple[Column, ...], positions: count[int]) -> str:
    arrays = ", ".join(f"{mark(next(positions))}::{SQL_KIND[each.kind]}[]" for each in columns)
    return f"unnest({arrays})"
