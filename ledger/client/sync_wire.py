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
from ledger.client.reaching import CHECK_BODY, CHECK_PATH, may_be_gone, not_reached

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
            lost = failure_of_call(error)
            left = method.left_by(lost)
            raise error_of(lost, method=method.name, durability=left) from error
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
        connection = self._connected()
        began_s = self._settings.clock()
        if (failure := connection.reach(send.timeout_s)) is not None:
            return failure
        sent_at_s = self._settings.clock()
        timeout_s = max(0.0, send.timeout_s - (sent_at_s - began_s))
        call = connection.call(send.path)
        try:
            body = call(send.body, timeout=timeout_s, metadata=self._endpoint.metadata())
        except grpc.RpcError as error:
            failure = failure_of_call(error)
            connection.reached = connection.reached and not may_be_gone(failure)
            return failure
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
        self.reached = False

    def reach(self, timeout_s: float) -> Failure | None:
        """The failure of a call that has no connection to be sent over; None where there is one."""
        if self.reached:
            return None
        try:
            self.call(CHECK_PATH)(CHECK_BODY, timeout=timeout_s)
        except grpc.RpcError as error:
            if (failure := not_reached(error)) is not None:
                return failure
        self.reached = True
        return None

    def call(self, path: str) -> Callable[..., bytes]:
        """The call at a path; bytes in, bytes out."""
        call = self._calls.get(path)
        if call is None:
            call = self._calls[path] = self.channel.unary_unary(path)
        return call
