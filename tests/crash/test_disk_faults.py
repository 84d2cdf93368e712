"""A disk that fails, is slow, or was never asked: nothing is acknowledged that it does not hold.

The faults are the kernel's, put in by strace: EIO from fsync, an fsync that takes long, and a
process that dies between its write and its fsync.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

import grpc
import psycopg
import pytest

from tests.crash.appends import complete_step, open_run
from tests.crash.conftest import NewServer
from tests.crash.mortal_server import MortalServer
from tests.crash.test_full_disk import SERVING, wait_for_health
from tests.crash.tracing import TracedServer, every_sync
from tests.crash.witness import Witness, of_request
from tests.support.calls import Calls, refusal_of_error
from tests.support.postgres import PostgresServer

SETTINGS: Final = {"LEDGER_SIGN_MS": "3600000", "LEDGER_CHECK_MS": "100"}
"""The test's own appends are the only ones that reach the disk."""
QUIET: Final = {"LEDGER_SIGN_MS": "3600000"}
SLOW_S: Final = 1.5


def database_of(server: MortalServer) -> list[Path]:
    """The files whose fsync makes a commit durable."""
    file = Path(server.store_url.removeprefix("sqlite://"))
    return [file, Path(f"{file}-wal")]


@pytest.fixture
def witness(new_server: NewServer, tmp_path: Path) -> Witness:
    """A server on SQLite that nothing but the test writes to."""
    server = new_server(f"sqlite://{tmp_path}/ledger.db", **QUIET)
    server.start()
    made = Witness(server)
    first = made.made(open_run, "first")
    made.verify_once(first, made.send(first))
    return made


def told(answer: Any) -> str:
    """What a client is told of durability."""
    return "acknowledged" if not isinstance(answer, grpc.RpcError) else refused(answer)


def refused(answer: grpc.RpcError) -> str:
    """The store's trouble, and what it did to the append."""
    refusal = refusal_of_error(answer)
    assert refusal.code is grpc.StatusCode.UNAVAILABLE
    return refusal.durability


@pytest.mark.long
def test_a_failed_fsync_is_an_error_and_never_a_success_on_a_second_try(
    new_server: NewServer, tmp_path: Path
) -> None:
    """ACK-01: EIO from every fsync of the database; nothing is acknowledged while it lasts."""
    server = new_server(f"sqlite://{tmp_path}/ledger.db", **SETTINGS)
    server.start()
    witness = Witness(server)
    wait_for_health(server, SERVING)
    append = witness.made(complete_step, "run")
    with every_sync("error=EIO", [server.pid], database_of(server)):
        assert told(witness.send(append)) == "MAYBE_COMMITTED"
        # Nothing can be begun now: true of these tries, and the SDK remembers the first.
        assert {told(witness.send(append)) for _ in range(2)} <= {
            "MAYBE_COMMITTED",
            "NOT_COMMITTED",
        }
    wait_for_health(server, SERVING)
    witness.verify_once(append, witness.send(append))
    witness.verify_rows()


def test_one_failed_fsync_is_told_truthfully_whatever_a_restart_finds(witness: Witness) -> None:
    """ACK-01: EIO once. What is said not to be committed is not found by the next recovery."""
    server = witness.server
    append = witness.made(open_run, "run")
    with every_sync("error=EIO:when=1", [server.pid], database_of(server)):
        answer = witness.send(append)
    assert told(answer) == "NOT_COMMITTED"
    server.kill()
    server.start()
    assert not of_request(witness.verify(), append.message.request_id)
    witness.verify_once(append, witness.send(append))
    witness.verify_rows()


def test_what_a_restart_finds_is_durable_before_it_is_acknowledged(
    witness: Witness, tmp_path: Path
) -> None:
    """ACK-01: the process dies between the write of the log file and its fsync. The next one takes
    the append for committed; it must not say so before the disk has it."""
    server = witness.server
    append = witness.made(open_run, "run")
    with every_sync("error=EIO:signal=KILL", [server.pid], database_of(server)):
        assert isinstance(witness.send(append), grpc.RpcError)
        server.bury()
    traced = TracedServer(server.folder, database_of(server)[0], settings=QUIET)
    try:
        calls = Calls(traced.start())
        answer = calls.call(append.method, append.message)
        done = traced.disk()
        calls.close()
    finally:
        traced.close()
    assert done[:3] == ["sync log file", "write database", "sync database"]
    server.start()
    witness.verify_once(append, answer)


@pytest.mark.long
def test_a_slow_fsync_is_waited_for_before_anything_is_acknowledged(witness: Witness) -> None:
    """ACK-01 and GRA-01: a client that gave up meanwhile sends the same id again: one event."""
    server = witness.server
    patient, hasty = (witness.made(open_run, run) for run in ("patient", "hasty"))
    slow = f"delay_exit={int(SLOW_S * 1e6)}"
    with every_sync(slow, [server.pid], database_of(server)):
        began_s = time.monotonic()
        answer = witness.send(patient)
        assert time.monotonic() - began_s >= SLOW_S
        gave_up = witness.send(hasty, timeout_s=SLOW_S / 3)
        assert gave_up.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        again = witness.send(hasty)
    witness.verify_once(patient, answer)
    witness.verify_once(hasty, again)


@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can trace the database's own processes")
def test_a_failed_fsync_of_postgres_loses_nothing_acknowledged_and_doubles_nothing(
    own_postgres_server: PostgresServer, new_server: NewServer
) -> None:
    """ACK-01: PostgreSQL stops itself on EIO and recovers; the ledger tells what it knows."""
    dsn = own_postgres_server.create_database("faulty")
    server = new_server(dsn, **SETTINGS)
    server.start()
    witness = Witness(server)
    wait_for_health(server, SERVING)
    append = witness.made(complete_step, "run")
    with psycopg.connect(own_postgres_server.superuser_dsn(), autocommit=True) as raw:
        pids = [pid for (pid,) in raw.execute("SELECT pid FROM pg_stat_activity").fetchall()]
        own = raw.info.backend_pid
    pids = [pid for pid in pids if pid != own]
    with every_sync("error=EIO", pids):
        answer = witness.send(append)
        assert told(answer) in ("MAYBE_COMMITTED", "NOT_COMMITTED")
    wait_for_health(server, SERVING)
    witness.verify_once(append, witness.send(append))
    witness.verify_rows()
