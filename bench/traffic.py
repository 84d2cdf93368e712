"""The traffic that the benches send: whole runs of a write-heavy agent, built before they are
timed.

One run: open, acquire, a plan of 20 steps in one request, start and complete of each step, close;
44 commands that append 63 entries. Of 20 steps 5 only read, 10 are idempotent writes whose key the
caller gives, 5 are writes whose key the ledger derives. Arguments have about 200 bytes, results
about 300.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import Message

from ledger.core.ids import uuid7
from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import types_pb2

STEPS: Final = 20
COMMANDS_A_RUN: Final = 4 + 2 * STEPS
ENTRIES_A_RUN: Final = 3 + 3 * STEPS
RUNS_A_CHUNK: Final = 25
"""25 runs are 1,100 commands: 11 messages of 100, cut wherever they fall."""

_TOKEN: Final = 1
_ATTEMPT: Final = 1
_PROCESS: Final = "bench-process-0123456789"
_CLASSES: Final = (
    types_pb2.EFFECT_CLASS_READ_ONLY,
    types_pb2.EFFECT_CLASS_IDEMPOTENT_WRITE,
    types_pb2.EFFECT_CLASS_IDEMPOTENT_WRITE,
    types_pb2.EFFECT_CLASS_NON_IDEMPOTENT_WRITE,
)
_TOOLS: Final = ("find_order", "set_address", "reserve_item", "refund")


Asked = tuple[Message, int]
"""A request, and how many entries its answer must acknowledge."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One call: its method, its bytes, how many entries its answer must acknowledge; and the
    requests, from `next` on, that are left of the run it leaves open."""

    method: str
    octets: bytes
    entries: int
    run: Sequence[Asked]
    next: int

    def rest(self) -> Sent | None:
        """What is left of the run, as one Submit."""
        left = self.run[self.next :]
        return _submit(left, run=self.run, next_=len(self.run)) if left else None


def calls_of_run(run: str) -> list[Sent]:
    """One run as unary calls. A new run's first token and each step's first attempt are 1, so every
    request is known before the first is answered."""
    requests = list(_requests(run))
    return [
        Sent(_method(message), message.SerializeToString(), entries, requests, at + 1)
        for at, (message, entries) in enumerate(requests)
    ]


def messages_of_chunk(name: str, commands: int) -> list[Sent]:
    """25 runs, one after the other, as Submit messages of so many commands."""
    runs = [list(_requests(f"{name}-{ordinal:02d}")) for ordinal in range(RUNS_A_CHUNK)]
    requests = [each for run in runs for each in run]
    messages = []
    for at in range(0, len(requests), commands):
        part = requests[at : at + commands]
        last = at + len(part) - 1
        run, next_ = runs[last // COMMANDS_A_RUN], last % COMMANDS_A_RUN + 1
        messages.append(_submit(part, run=run, next_=next_))
    return messages


def _submit(part: Sequence[Asked], *, run: Sequence[Asked], next_: int) -> Sent:
    submit = submit_of([message for message, _ in part])
    entries = sum(entries for _, entries in part)
    return Sent("Submit", submit.SerializeToString(), entries, run, next_)


def submit_of(requests: Sequence[Message]) -> pb.SubmitRequest:
    """The requests as the commands of one message."""
    return pb.SubmitRequest(commands=[_command(request) for request in requests])


def _requests(run: str) -> Iterator[Asked]:
    yield pb.OpenRunRequest(request_id=new_id(), run=run, initiator="customer-4711"), 1
    yield (
        pb.AcquireLeaseRequest(request_id=new_id(), run=run, holder="bench", process=_PROCESS),
        1,
    )
    yield (
        pb.PlanStepsRequest(
            request_id=new_id(),
            run=run,
            token=_TOKEN,
            process=_PROCESS,
            steps=[_planned(run, ordinal) for ordinal in range(STEPS)],
        ),
        STEPS,
    )
    for ordinal in range(STEPS):
        yield _start(run, ordinal), 1
        yield _complete(run, ordinal), 1
    yield (
        pb.CloseRunRequest(
            request_id=new_id(),
            run=run,
            token=_TOKEN,
            process=_PROCESS,
            status=types_pb2.RUN_STATUS_COMPLETED,
        ),
        1,
    )


def _planned(run: str, ordinal: int) -> pb.PlannedStep:
    kind = ordinal % 4
    effect_class = _CLASSES[kind]
    given = effect_class == types_pb2.EFFECT_CLASS_IDEMPOTENT_WRITE
    return pb.PlannedStep(
        step=_step(ordinal),
        tool=_TOOLS[kind],
        tool_version="2026-01",
        effect_class=effect_class,
        key=f"{run}/{ordinal}".encode() if given else b"",
        after=[_step(ordinal - 1)] if ordinal else [],
        arguments=_payload(f'{{"order":"W{ordinal:07d}","run":"{run}","note":"%s"}}', 200),
    )


def _start(run: str, ordinal: int) -> pb.StartStepRequest:
    return pb.StartStepRequest(
        request_id=new_id(),
        run=run,
        step=_step(ordinal),
        token=_TOKEN,
        process=_PROCESS,
        tool_version="2026-01",
    )


def _complete(run: str, ordinal: int) -> pb.CompleteStepRequest:
    return pb.CompleteStepRequest(
        request_id=new_id(),
        run=run,
        step=_step(ordinal),
        attempt=_ATTEMPT,
        token=_TOKEN,
        outcome=types_pb2.OUTCOME_SUCCEEDED,
        result=_payload(f'{{"order":"W{ordinal:07d}","status":"done","items":"%s"}}', 300),
    )


def _payload(form: str, size_bytes: int) -> types_pb2.Payload:
    filled = form % ("x" * (size_bytes - len(form)))
    return types_pb2.Payload(content=filled.encode(), media_type="application/json")


def _step(ordinal: int) -> str:
    return f"step-{ordinal:02d}"


def _method(message: Message) -> str:
    return type(message).__name__.removesuffix("Request")


def _command(message: Message) -> pb.Command:
    command = pb.Command()
    for field in pb.Command.DESCRIPTOR.fields:
        if field.message_type is message.DESCRIPTOR:
            getattr(command, field.name).CopyFrom(message)
            return command
    raise TypeError(f"{_method(message)} is no command")


def new_id() -> str:
    """A fresh request id."""
    return uuid7(unix_ms=time.time_ns() // 1_000_000, random=os.urandom(10))
