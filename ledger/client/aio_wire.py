"""Drives flows over an asyncio gRPC channel. One channel for each process and event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from ledger.client.credentials import Endpoint
from ledger.client.failures import Failure, error_of, failure_of_call
from ledger.client.flow import Action, Arrived, Event, Flow, Method, Pause, Paused, Send, Settings
from ledger.client.reaching import CHECK_BODY, CHECK_PATH, may_be_gone, not_reached
from ledger.client.sync_wire import require_fork_support

A = TypeVar("A", bound=Message)
T = TypeVar("T")


class AioWire:
    """A channel, made when first used in a loop and made anew in a forked child or another loop."""

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._connection: _Connection | None = None
        self._inherited: list[_Connection] = []

    async def drive(self, flow: Flow[T]) -> T:
        """Do what the flow says until it returns or raises."""
        try:
            action = next(flow)
        except StopIteration as end:
            answer: T = end.value
            return answer
        return await self._drive_on(flow, action)

    async def drive_through(self, flow: Flow[T]) -> T:
        """Drive a report that a cancellation must not cut off.

        A cancelled caller waits up to the `leaving` policy's deadline for the report to be
        acknowledged, and is cancelled then. A flow that asks for nothing needs no event loop: a
        forked child, which has none, leaves its parent's blocks by such flows.
        """
        try:
            action = next(flow)
        except StopIteration as end:
            answer: T = end.value
            return answer
        task = asyncio.ensure_future(self._drive_on(flow, action))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                await asyncio.wait({task}, timeout=self._settings.leaving.deadline_s)
            if not task.done():
                task.cancel()
            elif not task.cancelled():
                task.exception()  # the report's own trouble gives way to the cancellation
            raise

    async def stream(self, method: Method[A], request: Message) -> AsyncIterator[A]:
        """Answers as they come, until the server ends the stream. Raises `LedgerError` if it
        breaks.
        """
        stream: Callable[..., Any] = self._connected().channel.unary_stream(method.path)
        call = stream(request.SerializeToString(), metadata=self._endpoint.metadata())
        try:
            async for body in call:
                yield method.answer.FromString(body)
        except grpc.RpcError as error:
            lost = failure_of_call(error)
            left = method.left_by(lost)
            raise error_of(lost, method=method.name, durability=left) from error
        finally:
            call.cancel()

    async def close(self) -> None:
        """Close the channel of this process and loop; calls in flight end."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.is_here():
            await connection.channel.close()
        else:
            # Letting go of a parent's channel would wait for a thread that the fork lost.
            self._inherited.append(connection)

    async def _drive_on(self, flow: Flow[T], action: Action) -> T:
        try:
            while True:
                action = flow.send(await self._perform(action))
        except StopIteration as end:
            answer: T = end.value
            return answer

    async def _perform(self, action: Action) -> Event:
        match action:
            case Send():
                return await self._send(action)
            case Pause(pause_s):
                await asyncio.sleep(pause_s)
                return Paused()

    async def _send(self, send: Send) -> Arrived | Failure:
        connection = self._connected()
        began_s = self._settings.clock()
        if (failure := await connection.reach(send.timeout_s)) is not None:
            return failure
        sent_at_s = self._settings.clock()
        timeout_s = max(0.0, send.timeout_s - (sent_at_s - began_s))
        call = connection.call(send.path)
        try:
            body = await call(send.body, timeout=timeout_s, metadata=self._endpoint.metadata())
        except grpc.RpcError as error:
            failure = failure_of_call(error)
            connection.reached = connection.reached and not may_be_gone(failure)
            return failure
        return Arrived(body, sent_at_s)

    def _connected(self) -> _Connection:
        connection = self._connection
        if connection is not None and connection.is_here():
            return connection
        if connection is not None:
            require_fork_support(connection.pid)
            # A channel of the parent, or of a loop that ended, cannot be closed from here.
            self._inherited.append(connection)
        self._connection = made = _Connection(self._endpoint)
        return made


class _Connection:
    """A channel of one process and loop, and its calls by path."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.get_running_loop()
        if endpoint.tls is None:
            self.channel = grpc.aio.insecure_channel(endpoint.target, options=endpoint.options())
        else:
            self.channel = grpc.aio.secure_channel(
                endpoint.target, endpoint.tls.channel_credentials(), options=endpoint.options()
            )
        self._calls: dict[str, Callable[..., Awaitable[bytes]]] = {}
        self.reached = False

    async def reach(self, timeout_s: float) -> Failure | None:
        """The failure of a call that has no connection to be sent over; None where there is one."""
        if self.reached:
            return None
        try:
            await self.call(CHECK_PATH)(CHECK_BODY, timeout=timeout_s)
        except grpc.RpcError as error:
            if (failure := not_reached(error)) is not None:
                return failure
        self.reached = True
        return None

    def is_here(self) -> bool:
        """Whether this is the process and the loop that made it."""
        return self.pid == os.getpid() and self._loop is asyncio.get_running_loop()

    def call(self, path: str) -> Callable[..., Awaitable[bytes]]:
        """The call at a path; bytes in, bytes out."""
        call = self._calls.get(path)
        if call is None:
            call = self._calls[path] = self.channel.unary_unary(path)
        return call
