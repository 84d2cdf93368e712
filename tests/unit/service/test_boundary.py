"""What befalls a call before it is admitted ends it with a status, like everything after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from ledger.core.commands import Caller
from ledger.core.vocabulary import Role
from ledger.principals import PrincipalsFile
from ledger.service.boundary import Boundary, Call
from ledger.service.identity import Identity
from ledger.service.metrics import Metrics
from ledger.service.statuses import DETAILS_KEY


class Aborted(Exception):
    """The transport was told to end the call."""


class BrokenTransport:
    """A transport that has lost the connection's certificate and fails when it is asked for it."""

    def __init__(self) -> None:
        self.ended: Status | None = None

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def auth_context(self) -> dict[str, list[bytes]]:
        raise RuntimeError("the connection is gone")

    def time_remaining(self) -> float | None:
        return None

    async def abort(self, code: grpc.StatusCode, message: str, details: Any) -> None:
        ((name, octets),) = details
        assert name == DETAILS_KEY
        self.ended = Status.FromString(octets)
        assert self.ended.code == code.value[0]
        raise Aborted


@pytest.fixture
def boundary(tmp_path: Path) -> Boundary:
    path = tmp_path / "principals.json"
    path.write_bytes(orjson.dumps({"v": 1, "principals": []}))
    return Boundary(Identity(PrincipalsFile(path)), Metrics(), _nobody_is_refused)


async def _nobody_is_refused(caller: Caller, method: str, trace: str, octets: bytes) -> None:
    raise AssertionError("a caller that was not known was refused for his roles")


async def _never(call: Call, octets: bytes) -> bytes:
    raise AssertionError("a call that was not admitted was answered")


async def _never_any(call: Call, octets: bytes) -> AsyncIterator[bytes]:
    yield await _never(call, octets)


def _said(transport: BrokenTransport) -> tuple[int, str, str]:
    assert transport.ended is not None
    info = error_details_pb2.ErrorInfo()
    assert transport.ended.details[0].Unpack(info)
    assert info.metadata["durability"] == "NOT_COMMITTED"
    return transport.ended.code, info.reason, transport.ended.message


def test_a_fault_while_the_caller_is_looked_for_is_mapped_and_says_nothing_was_done(
    boundary: Boundary,
) -> None:
    transport = BrokenTransport()
    handler: Any = boundary.unary("GetRun", _never)
    with pytest.raises(Aborted):
        asyncio.run(handler.unary_unary(b"", transport))
    code, reason, message = _said(transport)
    assert (code, reason) == (grpc.StatusCode.INTERNAL.value[0], "INTERNAL")
    assert "Nothing was done" in message
    assert "connection is gone" not in message


def test_a_stream_is_admitted_by_the_same_rule(boundary: Boundary) -> None:
    transport = BrokenTransport()
    handler: Any = boundary.streaming("WatchRun", _never_any, roles=frozenset(Role))

    async def drained() -> list[bytes]:
        return [answer async for answer in handler.unary_stream(b"", transport)]

    with pytest.raises(Aborted):
        asyncio.run(drained())
    assert _said(transport)[1] == "INTERNAL"
