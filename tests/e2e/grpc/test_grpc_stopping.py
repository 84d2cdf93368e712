"""Stopping: asked, killed, started again; and what keeps a server from starting."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import types_pb2
from tests.support.calls import (
    TIMEOUT_S,
    Calls,
    complete_request,
    new_id,
    refusal_of_error,
)
from tests.support.server_fixtures import StartServer
from tests.support.server_process import LedgerServer


def test_what_was_acknowledged_is_there_after_a_kill(start_server: StartServer) -> None:
    server = start_server()
    calls = Calls(server)
    request = pb.OpenRunRequest(request_id=new_id(), run="run-1")
    first = calls.call("OpenRun", request)
    token = calls.acquire("run-1").lease.token
    server.kill()
    server.start()
    again = calls.call("OpenRun", request)
    assert again.append.index == first.append.index
    assert again.append.leaf_hash == first.append.leaf_hash
    run = calls.call("GetRun", pb.GetRunRequest(run="run-1")).run
    assert run.lease.token == token
    calls.close()


def test_a_kill_amid_many_writers_loses_nothing_that_was_acknowledged(
    start_server: StartServer,
) -> None:
    server = start_server()
    acknowledged: list[tuple[pb.OpenRunRequest, int]] = []
    unclear: list[pb.OpenRunRequest] = []

    def write(worker: int) -> None:
        calls = Calls(server)
        for n in range(1_000):
            request = pb.OpenRunRequest(request_id=new_id(), run=f"run-{worker}-{n}")
            try:
                stub = calls.run_stub
                answer = stub.OpenRun(request, metadata=calls._metadata, timeout=TIMEOUT_S)
            except grpc.RpcError:
                unclear.append(request)
                break
            acknowledged.append((request, answer.append.index))
        calls.close()

    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(write, worker) for worker in range(4)]
        deadline = time.monotonic() + TIMEOUT_S
        while len(acknowledged) < 100:
            assert time.monotonic() < deadline
            time.sleep(0.005)  # pause: between looks at the count
        server.kill()
        for each in writing:
            each.result()
    server.start()
    calls = Calls(server)
    for request, index in acknowledged:
        assert calls.call("OpenRun", request).append.index == index
    for request in unclear:
        answer = calls.call("OpenRun", request)
        assert calls.call("OpenRun", request).append.index == answer.append.index
    calls.close()


def test_a_stopping_server_takes_reports_to_the_end_and_begins_nothing(
    start_server: StartServer,
) -> None:
    server = start_server(LEDGER_DRAIN_QUIET_MS="3000")
    calls = Calls(server)
    token = calls.driven("run-1", "s1", "s2")
    calls.start("run-1", "s1", token)
    server.terminate()
    refused = None
    deadline = time.monotonic() + TIMEOUT_S
    while refused is None:
        assert time.monotonic() < deadline
        try:
            calls.open_run(f"run-{new_id()}")
        except grpc.RpcError as error:
            refused = refusal_of_error(error)
    assert (refused.reason, refused.durability) == ("DRAINING", "NOT_COMMITTED")
    completed = calls.call("CompleteStep", complete_request("run-1", "s1", token))
    assert completed.state == types_pb2.STEP_STATE_SUCCEEDED
    assert server.wait() == 0
    calls.close()


def test_a_quiet_server_stops_at_once_with_status_0(start_server: StartServer) -> None:
    server = start_server()
    assert server.stop() == 0


def test_a_watcher_is_told_that_the_server_stops(start_server: StartServer) -> None:
    server = start_server()
    calls = Calls(server)
    calls.open_run("run-1")
    watched = calls.run_stub.WatchRun(
        pb.WatchRunRequest(run="run-1"), metadata=calls._metadata, timeout=TIMEOUT_S
    )
    next(watched)
    server.terminate()
    with pytest.raises(grpc.RpcError) as caught:
        next(watched)
    assert refusal_of_error(caught.value).reason == "DRAINING"
    assert server.wait() == 0
    calls.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"LEDGER_LISTEN": "0.0.0.0:0"}, "in the clear"),
        ({"LEDGER_STEPS_MAX": "many"}, "LEDGER_STEPS_MAX"),
        ({"LEDGER_STORE": "mysql://secret@host"}, "LEDGER_STORE"),
        ({"LEDGER_STORE": "sqlite:/nowhere/ledger.db"}, "did not start"),
        ({"LEDGER_TLS_CERTIFICATE": "/nowhere", "LEDGER_TLS_PRIVATE_KEY": "/nowhere"}, "/nowhere"),
    ],
)
def test_a_server_that_cannot_start_says_why_and_ends_with_1(
    tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    server = LedgerServer(tmp_path, settings=settings)
    server.begin()
    try:
        assert server.wait() == 1
    finally:
        server.close()
    assert said in server.log()
    assert "Traceback" not in server.log()
    assert "secret" not in server.log()


def test_an_address_that_is_taken_is_not_shared(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        server = LedgerServer(tmp_path, settings={"LEDGER_LISTEN": address})
        server.begin()
        try:
            assert server.wait() == 1
        finally:
            server.close()
    assert "cannot listen" in server.log()


def test_a_store_whose_key_is_missing_is_not_given_a_new_one(tmp_path: Path) -> None:
    server = LedgerServer(tmp_path).start()
    server.stop()
    (key,) = [path for path in (tmp_path / "keys" / "kek").iterdir() if path.name != "current"]
    key.rename(tmp_path / "elsewhere")
    server.begin()
    assert server.wait() == 1
    assert "key" in server.log()
    assert [path.name for path in (tmp_path / "keys" / "kek").iterdir()] == ["current"]
    (tmp_path / "elsewhere").rename(key)
    server.start()
    assert server.stop() == 0
