"""A store that cannot be written to: nothing is acknowledged, health says so, and it comes back.

A full disk is a small file system of its own where the tests run as root, and everywhere a limit
of the kernel on how long the server's files may grow: the write fails in the same place.
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import psycopg
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ledger.keyring import write_secret
from ledger.store.opening import open_store
from ledger.store.tables import DATA_KEYS
from ledger.v1 import log_service_pb2 as log_pb
from tests.crash.appends import Append, complete_step, open_run
from tests.crash.conftest import NewServer
from tests.crash.mortal_server import MortalServer
from tests.crash.witness import Witness, of_request
from tests.support.calls import payload, planned, refusal_of_error

WAIT_S: Final = 30.0
SETTINGS: Final = {"LEDGER_CHECK_MS": "100"}
SERVING: Final = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING


def wait_for_health(server: MortalServer, wanted: int) -> None:
    """Until the health service says so."""
    deadline = time.monotonic() + WAIT_S
    channel = server.channel()
    stub: Any = health_pb2_grpc.HealthStub(channel)
    try:
        while True:
            asked = health_pb2.HealthCheckRequest()
            if stub.Check(asked, timeout=WAIT_S, wait_for_ready=True).status == wanted:
                return
            assert time.monotonic() < deadline, server.log()
            time.sleep(0.02)  # pause: between looks at the server's health
    finally:
        channel.close()


def refused_until_full(witness: Witness) -> list[Append]:
    """Appends until three were refused; each refusal says that nothing happened, or may have."""
    refused: list[Append] = []
    for number in range(2_000):
        try:
            append = witness.made(complete_step, f"fill-{number}")
        except grpc.RpcError as error:
            verify_told_unavailable(error)
            append = witness.made(open_run, f"refused-{number}")
        if append.method == "CompleteStep":
            append.message.result.content = b"x" * 100_000
        answer = witness.send(append)
        if isinstance(answer, grpc.RpcError):
            verify_told_unavailable(answer)
            refused.append(append)
        if len(refused) == 3:
            return refused
    raise AssertionError("the disk never fills")


def verify_told_unavailable(error: Any) -> None:
    """The store's trouble, with the truth about durability."""
    refusal = refusal_of_error(error)
    assert refusal.code is grpc.StatusCode.UNAVAILABLE
    assert refusal.reason in ("STORE_UNAVAILABLE", "MAYBE_COMMITTED")


def verify_nothing_is_read(witness: Witness) -> None:
    """What has to be recorded first is not handed out, and a refusal is not told (contract, 10)."""
    admin, runtime = witness.calls("admin"), witness.calls()
    asked = log_pb.ListEntriesRequest(log=log_pb.LOG_NAME_ACCESS)
    without_role = log_pb.ListEntriesRequest()
    for refusal in (
        admin.refused("ListEntries", asked),
        runtime.refused("ListEntries", without_role),
    ):
        assert refusal.code is grpc.StatusCode.UNAVAILABLE
        assert (refusal.reason, refusal.durability) == ("ACCESS_NOT_RECORDED", "NOT_COMMITTED")
    admin.close()
    runtime.close()


def verify_goes_on(witness: Witness, refused: list[Append]) -> None:
    """With room again, the same requests are taken once, and the log is whole."""
    wait_for_health(witness.server, SERVING)
    for append in refused:
        answer = witness.send(append)
        assert not isinstance(answer, grpc.RpcError), answer
        witness.verify_once(append, answer)
    witness.verify_rows()


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_full_disk_is_said_and_passes(new_server: NewServer, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        server = new_server(f"sqlite://{disk}/ledger.db", **SETTINGS)
        server.start()
        witness = Witness(server)
        wait_for_health(server, SERVING)
        refused = refused_until_full(witness)
        wait_for_health(server, NOT_SERVING)
        witness.verify(access=False)
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        verify_goes_on(witness, refused)
        assert server.stop() == 0


def test_files_that_may_not_grow_are_said_and_pass(new_server: NewServer, tmp_path: Path) -> None:
    server = new_server(f"sqlite://{tmp_path}/ledger.db", **SETTINGS)
    server.start()
    witness = Witness(server)
    wait_for_health(server, SERVING)
    _, most = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1 << 20, most))
    refused = refused_until_full(witness)
    wait_for_health(server, NOT_SERVING)
    witness.verify(access=False)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (most, most))
    verify_goes_on(witness, refused)
    assert server.stop() == 0


@pytest.mark.postgres
def test_a_database_that_may_not_be_written_is_said_and_passes(
    postgres_dsn: str, new_server: NewServer
) -> None:
    server = new_server(postgres_dsn, **SETTINGS)
    server.start()
    witness = Witness(server)
    wait_for_health(server, SERVING)
    refused = witness.made(open_run, "run")
    with psycopg.connect(postgres_dsn, autocommit=True) as owner:
        owner.execute("REVOKE INSERT, UPDATE ON entries, heads FROM CURRENT_USER")
        verify_told_unavailable(witness.send(refused))
        wait_for_health(server, NOT_SERVING)
        assert not of_request(witness.verify(access=False), refused.message.request_id)
        verify_nothing_is_read(witness)
        owner.execute("GRANT INSERT, UPDATE ON entries, heads TO CURRENT_USER")
    verify_goes_on(witness, [refused])
    assert server.stop() == 0


def test_the_subject_of_an_opening_that_failed_is_forgotten(
    new_server: NewServer, tmp_path: Path
) -> None:
    """The run is opened again without a subject: its payloads lie under the run's own key."""
    server = new_server(f"sqlite://{tmp_path}/ledger.db", **SETTINGS)
    server.start()
    witness = Witness(server)
    with files_full(server):
        verify_told_unavailable(witness.send(witness.made(open_run, "run")))
    calls = witness.calls()
    calls.open_run("run")
    token = calls.acquire("run").lease.token
    calls.plan("run", token, [planned("one", arguments=payload(b"{}"))])
    calls.close()
    witness.verify_rows()
    store = open_store(server.store_url)
    with store.read() as reading:
        rows = reading.page(DATA_KEYS, equal={}, order=DATA_KEYS.key, limit=10)
    store.close()
    assert [row[2] for row in rows] == ["run:run"]


@pytest.mark.parametrize("room", [0, 1, 20])
def test_a_small_file_is_replaced_whole_or_left_as_it_was(tmp_path: Path, room: int) -> None:
    """ACK-03: mark and keys. A disk that fills up may write a part and say so only by its count."""
    path = tmp_path / "mark"
    write_secret(path, "what stood there before")
    soft, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
    try:
        with pytest.raises(OSError, match="too large"):
            write_secret(path, "what is longer than there is room for")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, most))
    assert path.read_text(encoding="utf-8") == "what stood there before\n"
    assert list(tmp_path.iterdir()) == [path]


@contextmanager
def files_full(server: MortalServer) -> Iterator[None]:
    """No file of the server may grow while the block runs."""
    _, most = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1, most))
    try:
        yield
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (most, most))
