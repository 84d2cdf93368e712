"""Every kind of append, as a request that is right in the state that was made for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration

from ledger.v1 import review_service_pb2 as review_pb
from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import types_pb2
from tests.support.calls import (
    PROCESS,
    Calls,
    complete_request,
    new_id,
    payload,
    planned,
    start_request,
)


@dataclass(frozen=True)
class Append:
    """One call to send: its principal, method and message, and how many entries each of its
    request ids stands for. Repeats of those `by_state` are answered by the present state, which may
    be that nothing is left to do."""

    principal: str
    method: str
    message: Any
    entries: dict[str, int]
    by_state: frozenset[str] = frozenset()


HOUR: Final = Duration(seconds=3_600)
"""Nothing ends by itself while a test makes many states before it uses them."""

Made = Callable[[Calls, str], Append]
"""Makes the state on a run of that id, through the runtime's calls, and answers the append."""


def driven(calls: Calls, run: str, *steps: str) -> int:
    """A run that is open, driven for an hour and planned; answers its token."""
    calls.open_run(run)
    token: int = calls.acquire(run, ttl=HOUR).lease.token
    if steps:
        calls.plan(run, token, [planned(step) for step in steps])
    return token


def open_run(calls: Calls, run: str) -> Append:
    """The first entry of a run."""
    message = pb.OpenRunRequest(
        request_id=new_id(), run=run, initiator="person:7", labels={"team": "one"}, subject="s-1"
    )
    return _runtimes("OpenRun", message, 1)


def acquire_lease(calls: Calls, run: str) -> Append:
    """The first lease of a run."""
    calls.open_run(run)
    message = pb.AcquireLeaseRequest(request_id=new_id(), run=run, holder="worker", process=PROCESS)
    return _runtimes("AcquireLease", message, 1)


def plan_with_a_new_tool(calls: Calls, run: str) -> Append:
    """Three steps of a tool that nobody declared before: its declaration is a fourth entry, which
    is not one of the plan's parts."""
    token = driven(calls, run)
    steps = [planned(f"step-{n}", tool=f"tool-of-{run}") for n in range(3)]
    message = pb.PlanStepsRequest(
        request_id=new_id(), run=run, token=token, process=PROCESS, steps=steps
    )
    return _runtimes("PlanSteps", message, 3)


def start_step(calls: Calls, run: str) -> Append:
    """The first start of a write: claims its key."""
    token = driven(calls, run, "one")
    return _runtimes("StartStep", start_request(run, "one", token), 1)


def complete_step(calls: Calls, run: str) -> Append:
    """A result and an external reference, both sealed."""
    token = driven(calls, run, "one")
    calls.start(run, "one", token, operation_timeout=HOUR)
    message = complete_request(
        run,
        "one",
        token,
        result=payload(b'{"paid":' + b"1" * 2_000 + b"}"),
        external_reference=payload(b'"invoice 7"'),
    )
    return _runtimes("CompleteStep", message, 1)


def mark_unknown(calls: Calls, run: str) -> Append:
    """A write whose outcome nobody can tell."""
    token = driven(calls, run, "one")
    calls.start(run, "one", token, operation_timeout=HOUR)
    message = pb.MarkUnknownRequest(
        request_id=new_id(), run=run, step="one", attempt=1, token=token, cause="lost_answer"
    )
    return _runtimes("MarkUnknown", message, 1)


def reconcile(calls: Calls, run: str) -> Append:
    """A reviewer's decision with reason, evidence and result."""
    found = calls.call("MarkUnknown", mark_unknown(calls, run).message)
    message = review_pb.ReconcileRequest(
        request_id=new_id(),
        run=run,
        step="one",
        verdict=review_pb.VERDICT_EXECUTED,
        reason_code="seen_at_the_shop",
        reason=payload(b'"order 7 stands"'),
        evidence=[payload(b'{"order":7}')],
        expected_version=found.unknown.expected_version,
        result=payload(b'{"paid":1}'),
    )
    return Append("reviewer", "Reconcile", message, {message.request_id: 1})


def close_run(calls: Calls, run: str) -> Append:
    """The end of a run: withdraws a step that is still planned."""
    token = driven(calls, run, "one", "two")
    calls.start(run, "one", token, operation_timeout=HOUR)
    calls.complete(run, "one", token)
    message = pb.CloseRunRequest(
        request_id=new_id(),
        run=run,
        token=token,
        process=PROCESS,
        status=types_pb2.RUN_STATUS_COMPLETED,
    )
    return _runtimes("CloseRun", message, 2)


def submit_a_whole_run(calls: Calls, run: str) -> Append:
    """Eight commands of one run in one message, from open to close."""
    at: dict[str, Any] = {"run": run, "process": PROCESS}
    commands = [
        pb.Command(open_run=pb.OpenRunRequest(request_id=new_id(), run=run)),
        pb.Command(
            acquire_lease=pb.AcquireLeaseRequest(request_id=new_id(), holder="worker", **at)
        ),
        pb.Command(
            plan_steps=pb.PlanStepsRequest(
                request_id=new_id(), token=1, steps=[planned("one"), planned("two")], **at
            )
        ),
    ]
    for step in ("one", "two"):
        commands.append(pb.Command(start_step=start_request(run, step, 1)))
        commands.append(pb.Command(complete_step=complete_request(run, step, 1)))
    closing = pb.CloseRunRequest(
        request_id=new_id(), token=1, status=types_pb2.RUN_STATUS_COMPLETED, **at
    )
    commands.append(pb.Command(close_run=closing))
    entries = {request_id_of(command): 1 for command in commands}
    entries[request_id_of(commands[2])] = 2
    by_state = {
        request_id_of(command)
        for command in commands
        if command.WhichOneof("command") in ("acquire_lease", "start_step")
    }
    message = pb.SubmitRequest(commands=commands)
    return Append("runtime", "Submit", message, entries, frozenset(by_state))


def request_id_of(command: pb.Command) -> str:
    """The request id in a command of a message."""
    given: str = getattr(command, command.WhichOneof("command") or "").request_id
    return given


def _runtimes(method: str, message: Any, entries: int) -> Append:
    return Append("runtime", method, message, {message.request_id: entries})


KINDS: Final[dict[str, Made]] = {
    made.__name__: made
    for made in (
        open_run,
        acquire_lease,
        plan_with_a_new_tool,
        start_step,
        complete_step,
        mark_unknown,
        reconcile,
        close_run,
        submit_a_whole_run,
    )
}
