"""Calls outside a driven run: reading runs, reviewing unknowns, the log, and many commands at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar, assert_never

from google.protobuf.message import Message

from ledger.client import decode, methods, requests
from ledger.client.checks import Checks
from ledger.client.errors import LedgerError, LedgerUnavailable
from ledger.client.failures import error_of, failure_of_status
from ledger.client.flow import Flow, Method, Pause, Settings, answered
from ledger.client.values import (
    Appended,
    CancelAsked,
    Checkpoint,
    CommandAnswer,
    ConsistencyProof,
    DisclosedPayload,
    Entry,
    InclusionProof,
    Receipt,
    Reconciled,
    RunChange,
    RunInfo,
    StepInfo,
    UnknownStep,
)
from ledger.client.words import LogName, ReadPurpose
from ledger.v1 import log_service_pb2 as logs
from ledger.v1 import review_service_pb2 as reviews
from ledger.v1 import run_service_pb2 as runs

A = TypeVar("A", bound=Message)
T = TypeVar("T")

_WATCH_AGAIN_S: Final = 0.2

Command: TypeAlias = (
    runs.OpenRunRequest
    | runs.AcquireLeaseRequest
    | runs.ReleaseLeaseRequest
    | runs.BreakLeaseRequest
    | runs.PlanStepsRequest
    | runs.StartStepRequest
    | runs.CompleteStepRequest
    | runs.MarkUnknownRequest
    | runs.WithdrawStepRequest
    | runs.AttachEvidenceRequest
    | runs.RequestCancelRequest
    | runs.CloseRunRequest
    | reviews.ReconcileRequest
    | reviews.ProposeDecisionRequest
)
"""A command for `submit`, as the functions of `ledger.client.requests` build it."""
CommandResult: TypeAlias = CommandAnswer | LedgerError
"""The answer to one command, or the error that its own call would have raised."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page, and the cursor of the next; empty at the end."""

    items: tuple[T, ...]
    cursor: str


def decoded(
    settings: Settings, method: Method[A], request: Message, decoder: Callable[[A], T]
) -> Flow[T]:
    """One call, its answer decoded."""
    answer = yield from answered(settings, method, request)
    return decoder(answer.message)


def submit(settings: Settings, commands: Sequence[Command]) -> Flow[list[CommandResult]]:
    """Many commands in one message: applied in order, each atomic with its own answer.

    The message as a whole is sent again with the same request ids until it is answered. An error of
    one command is its result, not raised, and undoes nothing before it.
    """
    check = Checks(settings.limits)
    check.count(commands, path="commands", least=1, most=settings.limits.commands_max)
    seen: set[str] = set()
    for n, command in enumerate(commands):
        if command.request_id in seen:
            check.fault(f"commands[{n}].request_id", "stands twice in the message")
        seen.add(command.request_id)
    check.finish()
    request = runs.SubmitRequest(commands=[_wrapped(command) for command in commands])
    answer = yield from answered(settings, methods.SUBMIT, request)
    results = answer.message.results
    if len(results) != len(commands):
        raise LedgerError(
            f"the ledger answered {len(results)} of {len(commands)} commands. Send the same "
            "commands again; their request ids keep them from being applied twice."
        )
    return [_result(result) for result in results]


def _wrapped(command: Command) -> runs.Command:
    match command:
        case runs.OpenRunRequest():
            return runs.Command(open_run=command)
        case runs.AcquireLeaseRequest():
            return runs.Command(acquire_lease=command)
        case runs.ReleaseLeaseRequest():
            return runs.Command(release_lease=command)
        case runs.BreakLeaseRequest():
            return runs.Command(break_lease=command)
        case runs.PlanStepsRequest():
            return runs.Command(plan_steps=command)
        case runs.StartStepRequest():
            return runs.Command(start_step=command)
        case runs.CompleteStepRequest():
            return runs.Command(complete_step=command)
        case runs.MarkUnknownRequest():
            return runs.Command(mark_unknown=command)
        case runs.WithdrawStepRequest():
            return runs.Command(withdraw_step=command)
        case runs.AttachEvidenceRequest():
            return runs.Command(attach_evidence=command)
        case runs.RequestCancelRequest():
            return runs.Command(request_cancel=command)
        case runs.CloseRunRequest():
            return runs.Command(close_run=command)
        case reviews.ReconcileRequest():
            return runs.Command(reconcile=command)
        case reviews.ProposeDecisionRequest():
            return runs.Command(propose_decision=command)
        case _:
            assert_never(command)


def _result(result: runs.CommandResult) -> CommandResult:
    try:
        return _answer(result)
    except LedgerError as error:
        return error


def _answer(result: runs.CommandResult) -> CommandResult:
    match result.WhichOneof("result"):
        case "open_run":
            return decode.opened_of(result.open_run)
        case "acquire_lease":
            return decode.lease_granted_of(result.acquire_lease)
        case "release_lease":
            return decode.released_of(result.release_lease)
        case "break_lease":
            return decode.released_of(result.break_lease)
        case "plan_steps":
            return decode.planned_of(result.plan_steps)
        case "start_step":
            return decode.started_of(result.start_step)
        case "complete_step":
            return decode.completed_of(result.complete_step)
        case "mark_unknown":
            return decode.marked_of(result.mark_unknown)
        case "withdraw_step":
            return decode.withdrawn_of(result.withdraw_step)
        case "attach_evidence":
            return decode.evidence_of(result.attach_evidence)
        case "request_cancel":
            return decode.cancel_of(result.request_cancel)
        case "close_run":
            return decode.closed_of(result.close_run)
        case "reconcile":
            return decode.reconciled_of(result.reconcile)
        case "propose_decision":
            return decode.proposed_of(result.propose_decision)
        case "error":
            return error_of(failure_of_status(result.error), method="Submit")
        case _:
            raise LedgerError("the ledger answered a command with something not understood here")


def reconcile(settings: Settings, request: reviews.ReconcileRequest) -> Flow[Reconciled]:
    """Settle an unknown step by a decision."""
    return decoded(
        settings,
        methods.RECONCILE,
        request,
        decode.reconciled_of,
    )


def propose_decision(settings: Settings, request: reviews.ProposeDecisionRequest) -> Flow[Appended]:
    """Propose a decision for a second person to confirm."""
    return decoded(
        settings,
        methods.PROPOSE_DECISION,
        request,
        decode.proposed_of,
    )


def allow_downgrade(settings: Settings, request: reviews.AllowDowngradeRequest) -> Flow[Appended]:
    """Permit a weaker class (admin)."""
    return decoded(
        settings,
        methods.ALLOW_DOWNGRADE,
        request,
        lambda answer: Appended(decode.append_of(answer.append)),
    )


def break_lease(settings: Settings, run: str, *, reason: str) -> Flow[Appended]:
    """Take a lease away (admin)."""
    request = requests.break_lease(run, reason=reason, limits=settings.limits)
    return decoded(settings, methods.BREAK_LEASE, request, decode.released_of)


def before_watching_on(
    settings: Settings, lost: LedgerUnavailable, *, since_s: float
) -> Flow[None]:
    """A pause before a broken stream is asked for again. Raises `lost` once the settings' deadline
    is past since the stream last answered.
    """
    if settings.clock() - since_s > settings.retry.deadline_s:
        raise lost
    yield Pause(_WATCH_AGAIN_S)


def request_cancel(settings: Settings, run: str, *, reason: str) -> Flow[CancelAsked]:
    """Ask a run to stop."""
    request = requests.request_cancel(run, reason=reason, limits=settings.limits)
    return decoded(settings, methods.REQUEST_CANCEL, request, decode.cancel_of)


def unknowns(settings: Settings, *, run: str, cursor: str) -> Flow[Page[UnknownStep]]:
    """A page of unsettled steps: writes that double first, then by age."""
    request = reviews.ListUnknownsRequest(
        page_size=settings.limits.page_max, page_token=cursor, run=run
    )
    return decoded(
        settings,
        methods.LIST_UNKNOWNS,
        request,
        lambda page: Page(tuple(map(decode.unknown_of, page.unknowns)), page.next_page_token),
    )


def list_runs(settings: Settings, *, open_only: bool, cursor: str) -> Flow[Page[RunInfo]]:
    """A page of runs, newest activity first."""
    request = runs.ListRunsRequest(
        page_size=settings.limits.page_max, page_token=cursor, open_only=open_only
    )
    return decoded(
        settings,
        methods.LIST_RUNS,
        request,
        lambda page: Page(tuple(map(decode.run_of, page.runs)), page.next_page_token),
    )


def get_run(settings: Settings, run: str) -> Flow[RunChange]:
    """A run with all its steps, without payloads."""
    steps: list[StepInfo] = []
    cursor = ""
    while True:
        request = runs.GetRunRequest(run=run, page_size=settings.limits.page_max, page_token=cursor)
        answer = yield from answered(settings, methods.GET_RUN, request)
        steps.extend(map(decode.step_of, answer.message.steps))
        cursor = answer.message.next_page_token
        if not cursor:
            return RunChange(decode.run_of(answer.message.run), tuple(steps))


def checkpoint(settings: Settings, *, log: LogName) -> Flow[Checkpoint]:
    """A signed checkpoint that includes everything acknowledged before the call."""
    return decoded(
        settings,
        methods.GET_CHECKPOINT,
        logs.GetCheckpointRequest(log=_log(log)),
        lambda answer: Checkpoint(answer.checkpoint, answer.size, answer.verifier_key),
    )


def entries(
    settings: Settings, *, cursor: str, log: LogName, purpose: ReadPurpose
) -> Flow[Page[Entry]]:
    """A page of entries; the cursor is the first index."""
    start = int(cursor)
    request = logs.ListEntriesRequest(
        start=start,
        page_size=settings.limits.page_max,
        log=_log(log),
        purpose=logs.ReadPurpose.ValueType(purpose),
    )
    return decoded(
        settings,
        methods.LIST_ENTRIES,
        request,
        lambda page: _entries_page(page.entries, start=start, total=page.size),
    )


def follow_request(
    *, start: int, until_head: bool, log: LogName, purpose: ReadPurpose
) -> logs.FollowEntriesRequest:
    """To follow a log."""
    return logs.FollowEntriesRequest(
        start=start,
        until_head=until_head,
        log=_log(log),
        purpose=logs.ReadPurpose.ValueType(purpose),
    )


def _log(log: LogName) -> logs.LogName.ValueType:
    return logs.LogName.ValueType(log)


def run_entries(settings: Settings, run: str, *, cursor: str) -> Flow[Page[Entry]]:
    """A page of a run's entries; the cursor is the first version."""
    start = int(cursor)
    request = logs.ListRunEntriesRequest(
        run=run, start_version=start, page_size=settings.limits.page_max
    )
    return decoded(
        settings,
        methods.LIST_RUN_ENTRIES,
        request,
        lambda page: _entries_page(page.entries, start=start, total=page.total_size),
    )


def _entries_page(found: Sequence[logs.LogEntry], *, start: int, total: int) -> Page[Entry]:
    following = start + len(found)
    ended = not found or following >= total
    return Page(entries_of(found), "" if ended else str(following))


def entries_of(found: Sequence[logs.LogEntry]) -> tuple[Entry, ...]:
    """Entries of the wire."""
    return tuple(Entry(entry.index, entry.entry) for entry in found)


def receipt(
    settings: Settings, *, index: int | None, request_id: str | None, log: LogName
) -> Flow[Receipt]:
    """A receipt by entry index, or by the request id that appended it."""
    request = logs.GetReceiptRequest(log=_log(log))
    if request_id is not None:
        request.request_id = request_id
    elif index is not None:
        request.index = index
    return decoded(
        settings,
        methods.GET_RECEIPT,
        request,
        lambda answer: Receipt(answer.receipt, answer.index),
    )


def inclusion_proof(
    settings: Settings, index: int, *, tree_size: int, log: LogName
) -> Flow[InclusionProof]:
    """An inclusion proof; tree size 0 means the present one."""
    request = logs.GetInclusionProofRequest(index=index, tree_size=tree_size, log=_log(log))
    return decoded(
        settings,
        methods.GET_INCLUSION_PROOF,
        request,
        lambda answer: InclusionProof(
            answer.tree_size, answer.leaf_hash, tuple(answer.hashes), answer.root
        ),
    )


def consistency_proof(
    settings: Settings, old_size: int, *, new_size: int, log: LogName
) -> Flow[ConsistencyProof]:
    """A consistency proof; new size 0 means the present one."""
    request = logs.GetConsistencyProofRequest(old_size=old_size, new_size=new_size, log=_log(log))
    return decoded(
        settings,
        methods.GET_CONSISTENCY_PROOF,
        request,
        lambda answer: ConsistencyProof(answer.new_size, tuple(answer.hashes)),
    )


def payload(settings: Settings, index: int, *, payload_id: str) -> Flow[DisclosedPayload]:
    """A payload with the salt of its commitment. A recorded read."""
    request = logs.GetPayloadRequest(index=index, payload_id=payload_id)
    return decoded(
        settings,
        methods.GET_PAYLOAD,
        request,
        lambda answer: DisclosedPayload(
            decode.payload_of(answer.payload), answer.salt, decode.time_of(answer.recorded_at)
        ),
    )


def run_change_of(answer: runs.WatchRunResponse) -> RunChange:
    """A watched run's change."""
    return RunChange(decode.run_of(answer.run), tuple(map(decode.step_of, answer.steps)))
