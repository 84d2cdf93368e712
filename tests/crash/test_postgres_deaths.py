"""Deaths on the other side: the PostgreSQL server killed, or the writer's connection ended.

The writing thread waits at a statement while PostgreSQL dies, then goes on. What the client is told
about durability is true, and the same request id sent again leaves one event.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any, Final
from urllib.parse import quote

import grpc
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.crash.appends import Append, complete_step, open_run
from tests.crash.conftest import NewServer
from tests.crash.mortal_server import MortalServer, Window
from tests.crash.witness import Witness, of_request
from tests.support.calls import refusal_of_error
from tests.support.cutting_proxy import Cut, CuttingProxy
from tests.support.postgres import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(300)]

WAIT_S: Final = 30.0
COMMIT: Final = "commit"


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


def commit_number(witness: Witness, server: MortalServer) -> int:
    """The number of the statement that commits a `complete_step`, counted."""
    append = witness.made(complete_step, "counted")
    server.arm("wait", Window(999, "after"))
    witness.verify_once(append, witness.send(append))
    (number,) = [int(seen.split()[0]) for seen in server.seen() if seen.endswith("before commit")]
    return number


def durability_of(answer: Any) -> str:
    """What a client is told: acknowledged, NOT_COMMITTED or MAYBE_COMMITTED."""
    if not isinstance(answer, grpc.RpcError):
        return "acknowledged"
    return refusal_of_error(answer).durability


def verify_told(witness: Witness, append: Append, answer: Any) -> None:
    """What the client was told about durability is what the log holds; sent again: one event."""
    told = durability_of(answer)
    found = sum(len(of_request(witness.verify_rows(), each)) for each in append.entries)
    wanted = sum(append.entries.values())
    match told:
        case "acknowledged":
            assert found == wanted
        case "NOT_COMMITTED":
            assert found == 0
        case "MAYBE_COMMITTED":
            assert found in (0, wanted)
        case _:
            raise AssertionError(told)
    again = witness.send(append)
    assert not isinstance(again, grpc.RpcError), again
    witness.verify_once(append, again)


def meanwhile(
    witness: Witness,
    server: MortalServer,
    pool: ThreadPoolExecutor,
    append: Append,
    window: Window,
    act: Callable[[], object],
) -> Any:
    """Sends an append, acts while its statement waits, and answers what the client got."""
    server.arm("wait", window)
    sent = pool.submit(witness.send, append)
    with server.waiting():
        act()
    return sent.result(WAIT_S)


def end_writers(dsn: str) -> None:
    """Ends every other connection to the database; returns when none is left."""
    others = (
        "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_type = 'client backend'"
    )
    deadline = time.monotonic() + WAIT_S
    with psycopg.connect(dsn, autocommit=True) as raw:
        ended = raw.execute(f"SELECT pg_terminate_backend(pid) {others}").fetchall()
        assert ended, "nobody was connected"
        while raw.execute(f"SELECT 1 {others}").fetchall():
            assert time.monotonic() < deadline
            time.sleep(0.005)  # pause: between looks at who is left


@pytest.mark.parametrize(
    "before_commit", [0, pytest.param(99, marks=pytest.mark.long)], ids=["at commit", "anywhere"]
)
def test_a_killed_postgres_loses_nothing_acknowledged_and_doubles_nothing(
    own_postgres_server: PostgresServer,
    new_server: NewServer,
    pool: ThreadPoolExecutor,
    before_commit: int,
) -> None:
    server = new_server(own_postgres_server.create_database("killed"))
    server.start()
    witness = Witness(server)
    last = commit_number(witness, server)
    told = {}
    for number in range(max(1, last - before_commit), last + 1):
        for window in (Window(number, "before"), Window(number, "after")):
            append = witness.made(complete_step, f"run-{window.number}-{window.moment}")
            kill = own_postgres_server.kill
            answer = meanwhile(witness, server, pool, append, window, kill)
            own_postgres_server.start()
            told[window] = durability_of(answer)
            verify_told(witness, append, answer)
    assert told.pop(Window(last, "after")) == "acknowledged"
    assert told.pop(Window(last, "before")) == "MAYBE_COMMITTED"
    assert told.pop(Window(last - 1, "after"), "MAYBE_COMMITTED") == "MAYBE_COMMITTED"
    assert set(told.values()) <= {"NOT_COMMITTED"}


@pytest.mark.parametrize(
    "before_commit", [1, pytest.param(99, marks=pytest.mark.long)], ids=["at commit", "anywhere"]
)
def test_a_connection_that_is_ended_anywhere_in_an_append_is_told_truthfully(
    postgres_dsn: str, new_server: NewServer, pool: ThreadPoolExecutor, before_commit: int
) -> None:
    server = new_server(postgres_dsn)
    server.start()
    witness = Witness(server)
    last = commit_number(witness, server)
    for number in range(max(1, last - before_commit), last + 1):
        for window in (Window(number, "before"), Window(number, "after")):
            append = witness.made(complete_step, f"run-{window.number}-{window.moment}")
            answer = meanwhile(
                witness, server, pool, append, window, lambda: end_writers(postgres_dsn)
            )
            # Before COMMIT nothing happened and it is tried again; at COMMIT it is looked up.
            at_commit = window in (Window(last - 1, "after"), Window(last, "before"))
            assert durability_of(answer) == ("NOT_COMMITTED" if at_commit else "acknowledged")
            verify_told(witness, append, answer)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("before the server hears it", "NOT_COMMITTED"),
        ("before the answer comes back", "acknowledged"),
    ],
)
def test_a_line_cut_at_commit_is_looked_up_before_the_client_is_told(
    postgres_dsn: str, new_server: NewServer, how: Cut, told: str
) -> None:
    """GRA-01."""
    with CuttingProxy(postgres_dsn) as proxy:
        server = new_server(as_uri(proxy.dsn))
        server.start()
        witness = Witness(server)
        append = witness.made(complete_step, "run")
        # Reads end with ROLLBACK, so the first COMMIT on the line is the append's.
        proxy.cut_at(b"COMMIT\x00", how)
        answer = witness.send(append)
        assert durability_of(answer) == told
        verify_told(witness, append, answer)


def as_uri(conninfo: str) -> str:
    """The address as a URI, which is what the server takes."""
    parts = conninfo_to_dict(conninfo)
    place = f"{parts['host']}:{parts['port']}/{parts['dbname']}"
    return f"postgresql://{parts['user']}:{quote(str(parts['password']))}@{place}"


class Standby:
    """A standby that PostgreSQL waits for at every COMMIT, and that never comes."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def require(self) -> None:
        """Has every COMMIT wait; takes effect within a moment."""
        self._alter("SET synchronous_standby_names = 'nobody'")

    def release(self) -> None:
        """Has none wait; those that wait go on."""
        self._alter("RESET synchronous_standby_names")

    def waiting(self) -> list[int]:
        """The backends that wait at COMMIT now."""
        with psycopg.connect(self._server.superuser_dsn(), autocommit=True) as raw:
            rows = raw.execute(
                "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            ).fetchall()
        return [pid for (pid,) in rows]

    def end(self, pid: int) -> None:
        """Ends a backend."""
        with psycopg.connect(self._server.superuser_dsn(), autocommit=True) as raw:
            raw.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])

    def _alter(self, what: str) -> None:
        with psycopg.connect(self._server.superuser_dsn(), autocommit=True) as raw:
            raw.execute(f"ALTER SYSTEM {what}")
            raw.execute("SELECT pg_reload_conf()")


def hung_at_commit(
    witness: Witness, standby: Standby, pool: ThreadPoolExecutor
) -> tuple[Append, Future[Any], int]:
    """An append whose COMMIT is durable and is not answered: PostgreSQL waits for its standby."""
    deadline = time.monotonic() + WAIT_S
    standby.require()
    for number in count():
        append = witness.made(open_run, f"hung-{number}")
        sent = pool.submit(witness.send, append)
        while not sent.done():
            assert time.monotonic() < deadline
            if pids := standby.waiting():
                return append, sent, pids[0]
            time.sleep(0.01)  # pause: between looks at what waits
    raise AssertionError


def test_a_postgres_killed_inside_commit_keeps_one_event(
    own_postgres_server: PostgresServer, new_server: NewServer, pool: ThreadPoolExecutor
) -> None:
    standby = Standby(own_postgres_server)
    server = new_server(own_postgres_server.create_database("inside"))
    server.start()
    witness = Witness(server)
    append, sent, _ = hung_at_commit(witness, standby, pool)
    own_postgres_server.kill()
    answer = sent.result(WAIT_S)
    assert durability_of(answer) == "MAYBE_COMMITTED"
    own_postgres_server.start()
    standby.release()
    verify_told(witness, append, answer)


def test_a_connection_ended_inside_commit_is_not_acknowledged_without_its_standby(
    own_postgres_server: PostgresServer, new_server: NewServer, pool: ThreadPoolExecutor
) -> None:
    """ACK-02: the client is cut off during the wait for the standby."""
    standby = Standby(own_postgres_server)
    server = new_server(own_postgres_server.create_database("inside"))
    server.start()
    witness = Witness(server)
    append, sent, pid = hung_at_commit(witness, standby, pool)
    standby.end(pid)
    deadline = time.monotonic() + WAIT_S
    while not sent.done() and not standby.waiting():
        assert time.monotonic() < deadline
        time.sleep(0.01)  # pause: between looks at the one that looks it up
    assert not sent.done(), "acknowledged, though the standby that is required has nothing"
    standby.release()
    answer = sent.result(WAIT_S)
    verify_told(witness, append, answer)
