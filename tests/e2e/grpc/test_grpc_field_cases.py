"""Faults reported in public of gRPC services: message limits, keepalive, idle streams."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ledger.v1 import log_service_pb2 as log_pb
from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import run_service_pb2_grpc
from tests.crash.withholding_proxy import WithholdingProxy
from tests.support.calls import (
    Calls,
    complete_request,
    new_id,
    payload,
    refusal_of_error,
)
from tests.support.server_fixtures import StartServer
from tests.support.server_process import LedgerServer

TRANSPORT_DEFAULT: Final = 4_194_304
PING: Final = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00"
"""A PING frame's header, without ACK (RFC 9113, section 6.7)."""


@pytest.mark.parametrize("size", [TRANSPORT_DEFAULT, TRANSPORT_DEFAULT + 1])
def test_a_result_around_the_transports_default_is_refused_by_name_and_the_step_is_not_lost(
    runtime: Calls, run: str, size: int
) -> None:
    """GRL-01: the service's own limit lies below the transport's, and names the field."""
    token = runtime.driven(run, "s1")
    runtime.start(run, "s1", token)
    request = complete_request(run, "s1", token, result=payload(b""))
    while (missing := size - request.ByteSize()) > 0:
        request.result.content += b"x" * missing
        if request.ByteSize() > size:
            request.result.content = request.result.content[: size - request.ByteSize()]
            break
    assert request.ByteSize() == size
    refused = runtime.refused("CompleteStep", request)
    assert (refused.code, refused.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "LIMIT_EXCEEDED")
    assert (refused.field, refused.durability) == ("result.content", "NOT_COMMITTED")
    request.result.content = b'{"sha256":"...","at":"s3://results/1"}'
    assert runtime.call("CompleteStep", request).append.entries == 1


@pytest.mark.long
def test_a_message_of_64_mib_leaves_the_server_and_the_step_as_they_were(
    runtime: Calls, run: str
) -> None:
    """GRL-01: the transport refuses it unread; the same request id then takes a smaller result."""
    token = runtime.driven(run, "s1")
    runtime.start(run, "s1", token)
    request = complete_request(run, "s1", token, result=payload(bytes(64 << 20)))
    with pytest.raises(grpc.RpcError) as caught:
        runtime.call("CompleteStep", request)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    request.result.content = b"{}"
    assert runtime.call("CompleteStep", request).append.entries == 1


@pytest.mark.long
def test_idle_streams_hold_up_neither_appends_nor_health(start_server: StartServer) -> None:
    """GRL-04: every stream that the server may have is open and unread."""
    server: LedgerServer = start_server(LEDGER_STREAMS_MAX="12")
    calls, admin = Calls(server), Calls(server, "admin")
    calls.open_run("watched")
    idle = [unread(calls, admin, number) for number in range(12)]
    for each in idle[:2]:
        next(each)
    health: Any = health_pb2_grpc.HealthStub(server.channel())
    answers = health.Check(health_pb2.HealthCheckRequest(), timeout=5)
    assert answers.status == health_pb2.HealthCheckResponse.SERVING
    opening = pb.OpenRunRequest(request_id=new_id(), run="beside")
    assert calls.call("OpenRun", opening, timeout_s=5).append.entries == 1
    with pytest.raises(grpc.RpcError) as caught:
        next(unread(calls, admin, 12))
    assert refusal_of_error(caught.value).reason == "STREAMS_EXHAUSTED"
    with ThreadPoolExecutor(32) as pool:
        opened = list(pool.map(lambda n: calls.open_run(f"run-{n}").append.index, range(200)))
    assert len(set(opened)) == 200
    for each in idle:
        each.cancel()
    calls.close()
    admin.close()


def unread(calls: Calls, admin: Calls, number: int) -> Any:
    """A stream that nobody reads: a run's, or the log's."""
    if number % 2:
        asked = log_pb.FollowEntriesRequest()
        return admin.log_stub.FollowEntries(asked, metadata=admin._metadata, wait_for_ready=True)
    request = pb.WatchRunRequest(run="watched")
    return calls.run_stub.WatchRun(request, metadata=calls._metadata, wait_for_ready=True)


class PingingLine(WithholdingProxy):
    """Counts what a client sends that is a ping, and the connections it makes."""

    pings = 0
    connections = 0

    def _hear(self, client: socket.socket, server: socket.socket) -> None:
        self.connections += 1
        super()._hear(Overheard(client, self), server)  # type: ignore[arg-type]


class Overheard:
    """A client's socket, listened to."""

    def __init__(self, client: socket.socket, line: PingingLine) -> None:
        self._client = client
        self._line = line

    def recv(self, size: int) -> bytes:
        """What the client sent next."""
        octets = self._client.recv(size)
        self._line.pings += octets.count(PING)
        return octets

    def shutdown(self, how: int) -> None:
        """See `socket.shutdown`."""
        self._client.shutdown(how)

    def close(self) -> None:
        """See `socket.close`."""
        self._client.close()


@pytest.fixture
def pinging(running_server: LedgerServer, tmp_path: Path) -> Iterator[PingingLine]:
    with PingingLine(tmp_path / "withheld", lambda: running_server.address) as line:
        yield line


@pytest.mark.long
def test_a_client_that_pings_every_ten_seconds_keeps_its_connection(
    running_server: LedgerServer, pinging: PingingLine, run: str
) -> None:
    """GRL-03: keepalive on an idle connection, without a call; no GOAWAY too_many_pings."""
    options = [
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    metadata = (("authorization", f"Bearer {running_server.token()}"),)
    with grpc.insecure_channel(pinging.address, options=options) as channel:
        stub = run_service_pb2_grpc.RunServiceStub(channel)
        opening = pb.OpenRunRequest(request_id=new_id(), run=run)
        first = stub.OpenRun(opening, metadata=metadata, timeout=20)
        before, deadline = pinging.pings, time.monotonic() + 90
        while pinging.pings < before + 4:
            assert time.monotonic() < deadline, "the client does not ping"
            time.sleep(0.2)  # pause: between looks at what was sent
        again = stub.OpenRun(opening, metadata=metadata, timeout=20)
    assert again.append.index == first.append.index
    assert pinging.connections == 1
