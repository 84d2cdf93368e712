"""Drives a flow by a script: what each request is answered with, on a clock that only the script
moves.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from ledger.client.errors import Violation
from ledger.client.failures import Failure
from ledger.client.flow import Action, Arrived, Event, Flow, Pause, Paused, Send, Settings
from ledger.client.lease_core import RunOptions
from ledger.client.requests import open_run
from ledger.client.run_core import RunCore
from ledger.v1 import run_service_pb2 as runs
from ledger.v1 import types_pb2 as types

T = TypeVar("T")
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class After:
    """The answer, once this much time has passed."""

    seconds: float
    answer: Message | Failure


Answer: TypeAlias = Message | Failure | After


@dataclass(slots=True)
class Wire:
    """Answers by script, in order, and keeps what was sent."""

    now_s: float = 1_000.0
    sent: list[Send] = field(default_factory=list)
    pauses_s: list[float] = field(default_factory=list)
    script: list[Answer] = field(default_factory=list)

    def settings(self) -> Settings:
        """Settings whose clock is this wire's and whose jitter is one half."""
        return replace(Settings(), clock=lambda: self.now_s, jitter=lambda: 0.5)

    def drive(self, flow: Flow[T], *script: Answer) -> T:
        """Play the script against the flow; every line of it must be used."""
        self.script.extend(script)
        try:
            action = next(flow)
            while True:
                action = flow.send(self._perform(action))
        except StopIteration as end:
            assert not self.script, f"{len(self.script)} scripted answers were not asked for"
            answer: T = end.value
            return answer

    def names(self) -> list[str]:
        """The calls that were made, in order."""
        return [send.path.rpartition("/")[2] for send in self.sent]

    def last(self, kind: type[M]) -> M:
        """The last request that was sent, read as that message."""
        return kind.FromString(self.sent[-1].body)

    def _perform(self, action: Action) -> Event:
        if isinstance(action, Pause):
            self.pauses_s.append(action.pause_s)
            self.now_s += action.pause_s
            return Paused()
        self.sent.append(action)
        sent_at_s = self.now_s
        assert self.script, f"{action.path} was sent beyond the script"
        answer = self.script.pop(0)
        if isinstance(answer, After):
            self.now_s += answer.seconds
            answer = answer.answer
        if isinstance(answer, Failure):
            return answer
        return Arrived(answer.SerializeToString(), sent_at_s)


def unavailable(*, committed: str = "NOT_COMMITTED") -> Failure:
    """The store is away; nothing of this try was committed unless said otherwise."""
    return Failure(
        grpc.StatusCode.UNAVAILABLE,
        "the store is away",
        reason="STORE_UNAVAILABLE",
        facts={"durability": committed},
    )


def lost() -> Failure:
    """The connection broke; nobody can say what became of the request."""
    return Failure(grpc.StatusCode.UNAVAILABLE, "socket closed")


def refused(reason: str, **facts: str) -> Failure:
    """A refusal as a status carries it."""
    return Failure(
        grpc.StatusCode.FAILED_PRECONDITION,
        "for a reason",
        reason=reason,
        facts={"durability": "NOT_COMMITTED", "may_succeed_later": "false", **facts},
    )


def invalid(path: str) -> Failure:
    """The server found a field wrong."""
    return Failure(
        grpc.StatusCode.INVALID_ARGUMENT, "no", violations=(Violation(path, "is too long"),)
    )


def append(index: int = 7) -> types.Append:
    """An append's place."""
    return types.Append(
        index=index,
        leaf_hash=bytes(32),
        tree_size=index + 1,
        entries=1,
        recorded_at=Timestamp(seconds=1_700_000_000),
    )


def lease(token: int = 3, remaining_s: int = 30) -> runs.Lease:
    """A live lease."""
    return runs.Lease(
        token=token,
        holder="shop",
        principal="p",
        remaining=Duration(seconds=remaining_s),
        live=True,
    )


def executing(*, key: str = "d:k", remaining_s: float = 60.0) -> runs.StartStepResponse:
    """EXECUTE; of a READ_ONLY step where `key` is empty."""
    remaining = Duration()
    remaining.FromNanoseconds(round(remaining_s * 1e9))
    return runs.StartStepResponse(
        append=append(),
        execute=runs.Execute(token=3, attempt=1, remaining=remaining, key=key),
    )


def completed(
    state: str = "SUCCEEDED", disposition: str = "RECORDED", *, evidence: bool = False
) -> runs.CompleteStepResponse:
    """A report was taken."""
    return runs.CompleteStepResponse(
        append=append(9),
        disposition=runs.Disposition.Value(f"DISPOSITION_{disposition}"),
        state=types.StepState.Value(f"STEP_STATE_{state}"),
        evidence_recorded=evidence,
    )


def marked() -> runs.MarkUnknownResponse:
    """The step is unknown now."""
    return runs.MarkUnknownResponse(
        append=append(9),
        disposition=runs.DISPOSITION_RECORDED,
        state=types.STEP_STATE_UNKNOWN,
    )


def entered(wire: Wire, *, wait_s: float = 0.0) -> RunCore:
    """A run that was opened and is driven with token 3."""
    core = RunCore(
        wire.settings(),
        RunOptions("r1", "shop", 30.0, wait_s, open_run("r1")),
    )
    wire.drive(
        core.enter(),
        runs.OpenRunResponse(append=append(), run=runs.Run(run="r1")),
        runs.AcquireLeaseResponse(append=append(), lease=lease()),
    )
    return core
