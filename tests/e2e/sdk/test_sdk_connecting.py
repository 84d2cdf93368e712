"""Which server is called, and what is said of a call that found none: nothing of it was sent."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent import futures

import grpc
import pytest

from ledger.client import AsyncLedger, Ledger, LedgerUnavailable, requests
from ledger.client.words import Durability
from tests.e2e.sdk.conftest import Place, settings


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address of this machine where nobody listens, kept so that nobody else takes it."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{kept.getsockname()[1]}"


Ask = Callable[[str, float], LedgerUnavailable]


def _ask_blocking(address: str, deadline_s: float) -> LedgerUnavailable:
    with Ledger.connect(address, token="t", settings=settings(deadline_s)) as ledger:
        return _lost(ledger)


def _ask_in_asyncio(address: str, deadline_s: float) -> LedgerUnavailable:
    async def ask() -> LedgerUnavailable:
        async with AsyncLedger.connect(address, token="t", settings=settings(deadline_s)) as ledger:
            with pytest.raises(LedgerUnavailable) as caught:
                await ledger.request_cancel("r1", reason="stop")
            return caught.value

    return asyncio.run(ask())


def _lost(ledger: Ledger) -> LedgerUnavailable:
    with pytest.raises(LedgerUnavailable) as caught:
        ledger.request_cancel("r1", reason="stop")
    return caught.value


both = pytest.mark.parametrize("ask", [_ask_blocking, _ask_in_asyncio])


@both
def test_a_refused_connection_says_that_nothing_was_recorded(ask: Ask, nobody: str) -> None:
    lost = ask(nobody, 0.5)
    assert lost.durability is Durability.NOT_COMMITTED
    assert lost.tries > 1
    assert "Connection refused" in lost.detail
    assert "Nothing was recorded by it" in str(lost)


@both
def test_a_name_that_leads_nowhere_says_that_nothing_was_recorded(ask: Ask) -> None:
    lost = ask("unix:/nowhere/ledger.sock", 0.3)
    assert lost.durability is Durability.NOT_COMMITTED
    assert "/nowhere/ledger.sock" in lost.detail


@both
def test_a_listener_that_never_answers_says_that_nothing_was_recorded(ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        lost = ask(f"127.0.0.1:{deaf.getsockname()[1]}", 0.5)
    assert lost.durability is Durability.NOT_COMMITTED
    assert "DEADLINE_EXCEEDED" in lost.detail


class _Between(grpc.GenericRpcHandler):
    """What stands between client and ledger: hears every call, and has lost the ledger behind."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def service(
        self, details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        if "Health" in details.method:
            return None

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.heard.append(details.method)
            context.abort(
                grpc.StatusCode.UNAVAILABLE,
                "failed to connect to all addresses; last error: Connection refused",
            )

        return grpc.unary_unary_rpc_method_handler(answer)


@both
def test_the_words_of_a_refused_connection_prove_nothing_when_they_come_from_a_peer(
    ask: Ask,
) -> None:
    between = _Between()
    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[between])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        lost = ask(f"127.0.0.1:{port}", 0.5)
    finally:
        server.stop(None).wait()
    assert between.heard[0] == "/ledger.v1.RunService/RequestCancel"
    assert lost.durability is Durability.MAYBE_COMMITTED


def test_what_a_stopped_server_was_sent_may_be_committed_and_what_a_dead_one_was_not(
    own_place: Place,
) -> None:
    opening = requests.open_run(own_place.r1)
    ledger = own_place.client(deadline_s=1.0)
    assert not list(ledger.runs())
    os.kill(own_place.server.pid, signal.SIGSTOP)
    with pytest.raises(LedgerUnavailable) as caught:
        ledger.submit([opening])
    assert caught.value.durability is Durability.MAYBE_COMMITTED
    own_place.server.kill()
    # Until the client has met the loss, it cannot know that the next call went nowhere.
    with pytest.raises(LedgerUnavailable):
        list(ledger.runs())
    with pytest.raises(LedgerUnavailable) as caught:
        ledger.submit([requests.open_run(own_place.r2)])
    assert caught.value.durability is Durability.NOT_COMMITTED
    own_place.server.start()
    anew = own_place.client()
    anew.submit([opening])
    assert [info.run for info in anew.runs()] == [own_place.r1]


def test_the_server_is_the_one_named_in_the_call_else_the_one_of_the_setting(
    place: Place, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = place.token_file("runtime")
    monkeypatch.setenv("LEDGER_SERVER", place.server.address)
    with Ledger.connect(token_file=token) as ledger:
        assert ledger.checkpoint().size >= 0
    monkeypatch.setenv("LEDGER_SERVER", nobody)
    with Ledger.connect(token_file=token, settings=settings(0.3)) as ledger:
        assert nobody in _lost(ledger).detail
    with Ledger.connect(place.server.address, token_file=token) as ledger:
        assert ledger.checkpoint().size >= 0


def test_an_asyncio_client_finds_the_server_by_the_same_setting(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGER_SERVER", place.server.address)

    async def size() -> int:
        async with AsyncLedger.connect(token_file=place.token_file("runtime")) as ledger:
            return (await ledger.checkpoint()).size

    assert asyncio.run(size()) >= 0
