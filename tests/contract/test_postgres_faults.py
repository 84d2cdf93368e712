"""What only PostgreSQL can do to a store: lose its line, give up on a standby, be not durable."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from ledger.store.errors import CommitUnknown, NotDurable, StoreUnavailable
from ledger.store.postgres import PostgresStore
from ledger.store.settings import StoreSettings
from ledger.store.tables import ENTRIES, RUNS
from tests.support.cutting_proxy import Cut, CuttingProxy
from tests.support.postgres import PostgresServer, binaries
from tests.support.rows import LOG, append_one, count, entry, make_head, row, size

pytestmark = pytest.mark.postgres

WAIT_S = 30


class Backends:
    """Ends the connections of a database from outside."""

    def __init__(self, dsn: str) -> None:
        self._raw = psycopg.connect(dsn, autocommit=True)

    def end_all(self) -> int:
        """Ends every other connection to the database and waits until they are gone."""
        ended = self._raw.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        ).fetchall()
        assert all(gone for (gone,) in ended)
        return len(ended)

    def close(self) -> None:
        self._raw.close()


@pytest.fixture
def backends(postgres_dsn: str) -> Iterator[Backends]:
    made = Backends(postgres_dsn)
    yield made
    made.close()


@pytest.fixture
def store(postgres_dsn: str) -> Iterator[PostgresStore]:
    made = PostgresStore(postgres_dsn)
    made.migrate()
    make_head(made)
    yield made
    made.close()


def test_connections_that_died_idle_are_replaced(store: PostgresStore, backends: Backends) -> None:
    append_one(store)
    assert backends.end_all() >= 2
    assert append_one(store) == 1
    assert backends.end_all() >= 1
    assert size(store) == 2
    assert backends.end_all() >= 1
    with store.change() as changing:
        changing.insert(RUNS, [row(RUNS, 1)])
    assert count(store, RUNS) == 1


@pytest.mark.parametrize("last", ["a read", "held writes"])
def test_a_connection_lost_during_an_append_leaves_nothing(
    store: PostgresStore, backends: Backends, last: str
) -> None:
    append_one(store)

    def lose() -> None:
        with store.append(LOG) as appending:
            appending.insert(ENTRIES, [entry(1)])
            backends.end_all()
            if last == "a read":
                appending.get(RUNS, [("t", "r")])

    with pytest.raises(StoreUnavailable):
        lose()
    assert size(store) == 1
    assert append_one(store) == 1


def test_a_connection_lost_at_commit_leaves_it_unknown(
    store: PostgresStore, backends: Backends, postgres_dsn: str
) -> None:
    armed: list[str] = []

    def observe(moment: str, kind: str) -> None:
        if armed and (moment, kind) == ("before", "commit"):
            armed.clear()
            backends.end_all()

    losing = PostgresStore(postgres_dsn, StoreSettings(observe=observe))
    armed.append("now")
    with pytest.raises(CommitUnknown):
        append_one(losing)
    assert size(store) == 0
    assert append_one(losing) == 0
    losing.close()


@pytest.mark.parametrize(
    ("how", "happened"),
    [("before the server hears it", False), ("before the answer comes back", True)],
)
def test_an_unanswered_commit_is_unknown_whether_it_happened_or_not(
    store: PostgresStore, postgres_dsn: str, how: Cut, happened: bool
) -> None:
    with CuttingProxy(postgres_dsn) as proxy:
        far = PostgresStore(proxy.dsn)
        assert append_one(far) == 0
        proxy.cut_at(b"COMMIT\x00", how)
        with pytest.raises(CommitUnknown):
            append_one(far)
        # The lock that the look-up takes waits for the one that may still be committing.
        with far.append(LOG) as appending:
            assert appending.locked_head.size == 1 + happened
        assert append_one(far) == 1 + happened
        far.close()
    assert size(store) == 2 + happened


@pytest.mark.parametrize("words", [b"FOR UPDATE", b"INSERT INTO entries"])
def test_a_line_cut_before_commit_is_unavailable_or_replaced(
    store: PostgresStore, postgres_dsn: str, words: bytes
) -> None:
    with CuttingProxy(postgres_dsn) as proxy:
        far = PostgresStore(proxy.dsn)
        proxy.cut_at(words, "before the server hears it")
        if words == b"FOR UPDATE":
            assert append_one(far) == 0
        else:
            with pytest.raises(StoreUnavailable):
                append_one(far)
            assert append_one(far) == 0
        far.close()
    assert size(store) == 1


def test_a_commit_answered_with_a_warning_is_unknown(own_postgres_server: PostgresServer) -> None:
    """ACK-02: the server gives up waiting for its standby when it is asked to cancel, commits here
    only and answers COMMIT with a warning (PostgreSQL documentation, section 26.2.8.4)."""
    dsn = own_postgres_server.create_database("ledger")
    patient = PostgresStore(dsn)
    patient.migrate()
    make_head(patient)
    with psycopg.connect(own_postgres_server.superuser_dsn(), autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'gone'")
        admin.execute("SELECT pg_reload_conf()")

        def cancel_the_wait() -> None:
            query = (
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
                " WHERE wait_event = 'SyncRep' AND datname = 'ledger'"
            )
            while not admin.execute(query).fetchall():
                pass

        with ThreadPoolExecutor(1) as pool:
            cancelling = pool.submit(cancel_the_wait)
            with pytest.raises(CommitUnknown, match="warning"):
                append_one(patient)
            cancelling.result(WAIT_S)
        admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
        admin.execute("SELECT pg_reload_conf()")
    assert size(patient) == 1
    patient.close()


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [
        ("fsync", "off"),
        ("full_page_writes", "off"),
        pytest.param("data_sync_retry", "on", marks=pytest.mark.long),
    ],
)
def test_a_server_that_is_not_durable_is_refused(setting: str, wrong: str) -> None:
    """ACK-01."""
    with PostgresServer(None, binaries()[0], settings={setting: wrong}) as server:
        refused = PostgresStore(server.create_database("ledger"))
        with pytest.raises(NotDurable, match=setting):
            refused.check()
        with pytest.raises(StoreUnavailable, match=setting):
            refused.migrate()
        refused.close()


def test_a_database_that_commits_without_waiting_is_made_to_wait(
    store: PostgresStore, postgres_dsn: str
) -> None:
    with psycopg.connect(postgres_dsn, autocommit=True) as raw:
        (name,) = raw.execute("SELECT quote_ident(current_database())").fetchone() or ("",)
        raw.execute(f"ALTER DATABASE {name} SET synchronous_commit = off".encode())
        raw.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
        raw.execute(
            f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'".encode()
        )
    again = PostgresStore(postgres_dsn)
    again.check()
    asked = "SELECT current_setting('synchronous_commit'), current_setting('transaction_isolation')"
    with again.append(LOG) as appending:
        assert appending._connection.run("ask", asked) == [("on", "read committed")]
    assert append_one(again) == 0
    again.close()


def test_a_transaction_that_stands_still_frees_the_head(
    store: PostgresStore, postgres_dsn: str
) -> None:
    stopped = PostgresStore(postgres_dsn, StoreSettings(idle_ms_max=200))

    def stand_still() -> None:
        with stopped.append(LOG) as appending:
            appending.insert(ENTRIES, [entry(0)])
            # The other append gets the lock only because the server took it from this one.
            assert append_one(store) == 0

    with pytest.raises(StoreUnavailable):
        stand_still()
    assert size(store) == 1
    stopped.close()


def test_a_server_that_is_gone_is_unavailable_and_found_again(
    own_postgres_server: PostgresServer,
) -> None:
    there = PostgresStore(own_postgres_server.create_database("ledger"))
    there.migrate()
    make_head(there)
    append_one(there)
    own_postgres_server.kill()
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            append_one(there)
        with pytest.raises(StoreUnavailable):
            size(there)
    own_postgres_server.start()
    assert size(there) == 1
    assert append_one(there) == 1
    there.close()


def test_a_password_is_never_shown() -> None:
    secret = "hunter2-and-more"
    nowhere = PostgresStore(f"postgresql://someone:{secret}@127.0.0.1:1/db?connect_timeout=2")
    with pytest.raises(StoreUnavailable) as caught, nowhere.read():
        raise AssertionError("the block was entered")
    shown = f"{nowhere!r} {vars(nowhere)!r} {caught.value!r} {caught.value.__cause__!r}"
    assert secret not in shown
    for dsn in (f"postgresql://u:{secret}@[bad/db", f"postgresql://u:p@h/db?pass%word={secret}"):
        with pytest.raises(ValueError) as refused:
            PostgresStore(dsn)
        assert secret not in f"{refused.value!r} {refused.value.__cause__!r}"


def test_a_store_without_prepared_statements_keeps_the_contract(postgres_dsn: str) -> None:
    plain = PostgresStore(postgres_dsn, StoreSettings(prepares=False))
    plain.migrate()
    make_head(plain)
    assert [append_one(plain) for _ in range(12)] == list(range(12))
    with plain.append(LOG) as appending:
        asked = "SELECT count(*) FROM pg_prepared_statements"
        assert appending._connection.run("ask", asked) == [(0,)]
    plain.close()
