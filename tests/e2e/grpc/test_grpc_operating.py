"""What operators see: metrics, logs, reflection."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.support.calls import TIMEOUT_S, Calls, complete_request, payload
from tests.support.server_process import LedgerServer

SECRET = b"a-payload-that-nobody-may-log"


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
        return port


@pytest.fixture
def observed(tmp_path: Path) -> Iterator[tuple[LedgerServer, int]]:
    """A server that answers reflection and metrics, and logs everything."""
    port = free_port()
    settings = {
        "LEDGER_REFLECTION": "true",
        "LEDGER_METRICS_LISTEN": f"127.0.0.1:{port}",
        "LEDGER_LOG_LEVEL": "debug",
    }
    server = LedgerServer(tmp_path / "server", settings=settings)
    try:
        yield server.start(), port
    finally:
        server.close()


def services(server: LedgerServer, *metadata: tuple[str, str]) -> list[str]:
    """The services that reflection names."""
    with server.channel() as channel:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        answers = stub.ServerReflectionInfo(iter([asked]), metadata=metadata, timeout=TIMEOUT_S)
        return [service.name for service in next(answers).list_services_response.service]


def test_reflection_is_for_principals(observed: tuple[LedgerServer, int]) -> None:
    server, _ = observed
    named = services(server, ("authorization", f"Bearer {server.token()}"))
    assert {"ledger.v1.RunService", "ledger.v1.ReviewService", "ledger.v1.LogService"} <= set(named)
    with pytest.raises(grpc.RpcError) as caught:
        services(server)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_reflection_is_off_unless_it_is_set(sqlite_server: LedgerServer) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        services(sqlite_server, ("authorization", f"Bearer {sqlite_server.token()}"))
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_calls_are_counted_and_logged_without_what_they_carry(
    observed: tuple[LedgerServer, int],
) -> None:
    server, port = observed
    calls = Calls(server)
    token = calls.driven("run-1", "s1")
    calls.start("run-1", "s1", token)
    calls.complete("run-1", "s1", token, result=payload(SECRET))
    calls.refused("CompleteStep", complete_request("run-1", "s1", token, outcome=9))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as answer:
        counted = answer.read().decode()
    assert 'ledger_calls_total{code="OK",method="CompleteStep"} 1.0' in counted
    assert 'ledger_calls_total{code="INVALID_ARGUMENT",method="CompleteStep"} 1.0' in counted
    assert "run-1" not in counted
    assert server.stop() == 0
    lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    logged = [line for line in lines if line.get("method") == "CompleteStep"]
    assert [(line["code"], line["reason"]) for line in logged] == [
        ("OK", ""),
        ("INVALID_ARGUMENT", "INVALID_FIELD"),
    ]
    assert {line["principal"] for line in logged} == {"runtime"}
    assert SECRET.decode() not in server.log()
    assert server.token() not in server.log()
    calls.close()
