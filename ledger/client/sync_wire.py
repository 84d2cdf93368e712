"""Drives flows over a blocking gRPC channel. One channel for each process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import Message

from ledger.client.credentials import Endpoint
from ledger.client.errors import ForkedProcess
from ledger.client.failures import Failure, error_of, failure_of_call
from ledger.client.flow import Action, Arrived, Event, Flow, Method, Pause, Paused, Send, Settings

A = TypeVar("A", bound=Message)
T = TypeVar("T")

# With its fork handlers switched off, gRPC hangs in a forked child, new channels and deadlines
# included.
_FORKS_SAFELY: Final = os.environ.get("GRPC_ENABLE_FORK_SUPPORT", "1").lower() not in (
    "0",
    "false",
    "no",
    "n",
    "f",
)


def require_fork_support(pid: int) -> None:
    """Raise `ForkedProcess` where gRPC was used in another process and cannot go on in this one."""
    if pid != os.getpid() and not _FORKS_SAFELY:
        raise ForkedProcess()


class SyncWire:
    """A channel, made when first used and made anew in a forked child. Safe in several threads."""

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._connection: _Connection | None = None
        self._inherited: list[_Connection] = []

    def drive(self, flow: Flow[T]) -> T:
        """Do what the flow says until it returns or raises."""
        try:
            action = next(flow)
            while True:
                action = flow.send(self._perform(action))
        except StopIteration as end:
            answer: T = end.value
            return answer

    def stream(self, method: Method[A], request: Message) -> Iterator[A]:
        """Answers as they come, until the server ends the stream. Raises `LedgerError` if it
        breaks.
        """
        stream: Callable[..., Any] = self._connected().channel.unary_stream(method.path)
        call = stream(request.SerializeToString(), metadata=self._endpoint.metadata())
        try:
            for body in call:
                yield method.answer.FromString(body)
        except grpc.RpcError as error:
            raise error_of(failure_of_call(error), method=method.name) from error
        finally:
            call.cancel()

    def close(self) -> None:
        """Close the channel of this process; calls in flight end."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.pid == os.getpid():
            connection.channel.close()

    def _perform(self, action: Action) -> Event:
        match action:
            case Send():
                return self._send(action)
            case Pause(pause_s):
                time.sleep(pause_s)
                return Paused()

    def _send(self, send: Send) -> Arrived | Failure:
        call = self._connected().call(send.path)
        sent_at_s = self._settings.clock()
        try:
            body = call(send.body, timeout=send.timeout_s, metadata=self._endpoint.metadata())
        except grpc.RpcError as error:
            return failure_of_call(error)
        return Arrived(body, sent_at_s)

    def _connected(self) -> _Connection:
        connection = self._connection
        if connection is not None and connection.pid == os.getpid():
            return connection
        if connection is not None:
            require_fork_support(connection.pid)
            # The parent's channel is kept: closing it here could wait for threads that the fork
            # lost.
            self._inherited.append(connection)
        self._connection = made = _Connection(self._endpoint)
        return made


class _Connection:
    """A channel of one process, and its calls by path."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.pid = os.getpid()
        if endpoint.tls is None:
            self.channel = grpc.insecure_channel(endpoint.target, options=endpoint.options())
        else:
            self.channel = grpc.secure_channel(
                endpoint.target, endpoint.tls.channel_credentials(), options=endpoint.options()
            )
        self._calls: dict[str, Callable[..., bytes]] = {}

    def call(self, path: str) -> Callable[..., bytes]:
        """The call at a path; bytes in, bytes out."""
        call = self._calls.get(path)
        if call is None:
            call = self._calls[path] = self.channel.unary_unary(path)
        return call
