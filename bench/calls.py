"""Callers of a ledger server: requests built before, answers read after, nothing but sending in
between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, Final

import grpc
import grpc.aio
import psutil

from bench.orders import CallLoad, Taken, summed_up
from bench.traffic import ENTRIES_A_RUN, RUNS_A_CHUNK, Sent, calls_of_run, messages_of_chunk
from ledger.v1 import run_service_pb2 as pb

_TIMEOUT_S: Final = 60.0
_UNARY_EVENTS_A_SECOND: Final = 4_000
_BATCHED_EVENTS_A_SECOND: Final = 16_000
"""Built before the window for so many; a faster server has further ones built as it goes."""


class Unacknowledged(RuntimeError):
    """An answer that acknowledges something else than what was sent."""


class Callers:
    """The callers of one window. Each closes its run after the window, outside the measurement, so
    that nothing is left for the server to settle later."""

    def __init__(self, load: CallLoad) -> None:
        self._load = load
        self._built = [self._build(caller) for caller in range(load.callers)]
        self._metadata = (("authorization", f"Bearer {load.token}"),)
        self._rpcs: dict[str, Any] = {}
        self._answered: list[tuple[int, int, Sent, bytes]] = []
        self._until_ns = 0
        self._sent_entries = 0

    async def drive(self) -> Taken:
        """Sends until the window closes, then what is left of the runs."""
        load = self._load
        options = [("grpc.enable_retries", 0)]
        async with grpc.aio.insecure_channel(load.address, options=options) as channel:
            await self._connect(channel)
            server = psutil.Process(load.server_pid)
            from_ns, cpu_s, load_s = time.perf_counter_ns(), _cpu_s(server), time.process_time()
            self._until_ns = from_ns + int(load.window_s * 1e9)
            callers = [asyncio.create_task(self._call(built)) for built in self._built]
            await self._window_end(callers)
            until_ns, cpu_s = time.perf_counter_ns(), _cpu_s(server) - cpu_s
            load_s = time.process_time() - load_s
            self._until_ns = min(self._until_ns, until_ns)
            await asyncio.gather(*callers)
        spans_ns = [
            (began, ended, _acknowledged(sent, answer))
            for began, ended, sent, answer in self._answered
        ]
        return summed_up(
            spans_ns, from_ns=from_ns, until_ns=until_ns, server_cpu_s=cpu_s, load_cpu_s=load_s
        )

    async def _connect(self, channel: grpc.aio.Channel) -> None:
        async with asyncio.timeout(_TIMEOUT_S):
            await channel.channel_ready()
        for method in _ANSWERS:
            self._rpcs[method] = channel.unary_unary(f"/ledger.v1.RunService/{method}")

    async def _window_end(self, callers: list[asyncio.Task[None]]) -> None:
        left_s = (self._until_ns - time.perf_counter_ns()) / 1e9
        await asyncio.wait(callers, timeout=left_s)

    async def _call(self, calls: Iterator[Sent]) -> None:
        for sent in calls:
            ended = await self._send(sent)
            if ended >= self._until_ns or 0 < self._load.entries_max <= self._sent_entries:
                rest = sent.rest()
                if rest is not None:
                    await self._send(rest)
                return

    async def _send(self, sent: Sent) -> int:
        began = time.perf_counter_ns()
        answer = await self._rpcs[sent.method](
            sent.octets, metadata=self._metadata, timeout=_TIMEOUT_S
        )
        ended = time.perf_counter_ns()
        self._answered.append((began, ended, sent, answer))
        self._sent_entries += sent.entries
        return ended

    def _build(self, caller: int) -> Iterator[Sent]:
        """Endless calls, the first ones ready."""
        load = self._load
        events = _UNARY_EVENTS_A_SECOND if load.commands == 1 else _BATCHED_EVENTS_A_SECOND
        runs = events * load.window_s / ENTRIES_A_RUN / load.callers
        if load.entries_max:
            runs = min(runs, load.entries_max / ENTRIES_A_RUN / load.callers)
        count = 1 + int(runs / (1 if load.commands == 1 else RUNS_A_CHUNK))
        ready = [self._chunk(caller, number) for number in range(count)]
        return self._chunks(caller, ready)

    def _chunks(self, caller: int, ready: list[list[Sent]]) -> Iterator[Sent]:
        for chunk in ready:
            yield from chunk
        number = len(ready)
        while True:
            yield from self._chunk(caller, number)
            number += 1

    def _chunk(self, caller: int, number: int) -> list[Sent]:
        name = f"{self._load.name}-{caller:02d}-{number:05d}"
        if self._load.commands == 1:
            return calls_of_run(name)
        return messages_of_chunk(name, self._load.commands)


_ANSWERS: Final[dict[str, type[Any]]] = {
    "OpenRun": pb.OpenRunResponse,
    "AcquireLease": pb.AcquireLeaseResponse,
    "PlanSteps": pb.PlanStepsResponse,
    "StartStep": pb.StartStepResponse,
    "CompleteStep": pb.CompleteStepResponse,
    "CloseRun": pb.CloseRunResponse,
    "Submit": pb.SubmitResponse,
}


def _acknowledged(sent: Sent, octets: bytes) -> int:
    """How many entries an answer acknowledges. Raises `Unacknowledged` unless it is all of them."""
    answer = _ANSWERS[sent.method].FromString(octets)
    if sent.method == "Submit":
        entries = 0
        for result in answer.results:
            which = result.WhichOneof("result")
            if which == "error":
                raise Unacknowledged(f"a command of a message ended with {result.error}")
            entries += getattr(result, which).append.entries
    else:
        entries = answer.append.entries
    if entries != sent.entries:
        raise Unacknowledged(f"{sent.method} acknowledged {entries} of {sent.entries}: {answer}")
    return entries


def _cpu_s(server: psutil.Process) -> float:
    times = server.cpu_times()
    return times.user + times.system
