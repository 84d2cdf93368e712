"""The SDK: say what an agent is about to do, be told whether to do it, record what came of it.

    from ledger.client import Ledger, Step

    client = Ledger.connect("127.0.0.1:7420")
    with client.run("order-4711", holder="shop-agent") as run:
        run.plan([Step("s1", tool="refund", version="1", arguments={"order": 4711})])
        with run.effect("s1") as effect:
            if effect.execute:
                effect.succeeded(refund(4711, key=effect.key, token=effect.token))

`AsyncLedger` is the same for asyncio. No tool runs without an acknowledged EXECUTE.
"""

from __future__ import annotations

from ledger.client import requests
from ledger.client.aio_ledger import AsyncLedger
from ledger.client.aio_run import AsyncEffect, AsyncRun, AsyncTool
from ledger.client.calls import Command, CommandResult
from ledger.client.checks import Limits
from ledger.client.confirming import (
    Answer,
    CannotTell,
    Confirmer,
    Confirming,
    Executed,
    LeftForPerson,
    NotExecuted,
    Settled,
    Waits,
)
from ledger.client.credentials import Tls
from ledger.client.errors import (
    AlreadyReported,
    AuditNotRecorded,
    CallFailed,
    CredentialMissing,
    DeadlineOverrun,
    DeadlinePassed,
    DefinitelyFailed,
    DirectiveNotUnderstood,
    ForkedProcess,
    HeldByAnother,
    HistoryRewound,
    InvalidRequest,
    LedgerError,
    LedgerUnavailable,
    NotAuthenticated,
    NotExecuting,
    NothingSent,
    OutcomeNotReported,
    OutcomeUnknown,
    Refused,
    ReportedLate,
    ResultNotStorable,
    ResultUnavailable,
    RunNotDriven,
    Violation,
)
from ledger.client.flow import Settings
from ledger.client.payloads import Payload
from ledger.client.requests import Step
from ledger.client.retry import RetryPolicy
from ledger.client.sync_ledger import Ledger
from ledger.client.sync_run import Effect, Run, Tool
from ledger.client.values import (
    Append,
    Checkpoint,
    Closed,
    Entry,
    Planned,
    Receipt,
    Reconciled,
    Replay,
    Report,
    ResumeState,
    ResumeStep,
    RunChange,
    RunInfo,
    StandingProposal,
    StepInfo,
    StoredPayload,
    UnknownStep,
)
from ledger.client.words import (
    Availability,
    Disposition,
    Durability,
    EffectClass,
    LogName,
    Outcome,
    ReadPurpose,
    Reason,
    RunStatus,
    StepState,
    Verdict,
)

__all__ = [
    "AlreadyReported",
    "Answer",
    "Append",
    "AsyncEffect",
    "AsyncLedger",
    "AsyncRun",
    "AsyncTool",
    "AuditNotRecorded",
    "Availability",
    "CallFailed",
    "CannotTell",
    "Checkpoint",
    "Closed",
    "Command",
    "CommandResult",
    "Confirmer",
    "Confirming",
    "CredentialMissing",
    "DeadlineOverrun",
    "DeadlinePassed",
    "DefinitelyFailed",
    "DirectiveNotUnderstood",
    "Disposition",
    "Durability",
    "Effect",
    "EffectClass",
    "Entry",
    "Executed",
    "ForkedProcess",
    "HeldByAnother",
    "HistoryRewound",
    "InvalidRequest",
    "Ledger",
    "LedgerError",
    "LedgerUnavailable",
    "LeftForPerson",
    "Limits",
    "LogName",
    "NotAuthenticated",
    "NotExecuted",
    "NotExecuting",
    "NothingSent",
    "Outcome",
    "OutcomeNotReported",
    "OutcomeUnknown",
    "Payload",
    "Planned",
    "ReadPurpose",
    "Reason",
    "Receipt",
    "Reconciled",
    "Refused",
    "Replay",
    "Report",
    "ReportedLate",
    "ResultNotStorable",
    "ResultUnavailable",
    "ResumeState",
    "ResumeStep",
    "RetryPolicy",
    "Run",
    "RunChange",
    "RunInfo",
    "RunNotDriven",
    "RunStatus",
    "Settings",
    "Settled",
    "StandingProposal",
    "Step",
    "StepInfo",
    "StepState",
    "StoredPayload",
    "Tls",
    "Tool",
    "UnknownStep",
    "Verdict",
    "Violation",
    "Waits",
    "requests",
]
