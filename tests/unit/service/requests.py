"""A right request of every mutating method, for tests to spoil."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from ledger.core.commands import Caller
from ledger.core.ids import PrincipalId, Tenant
from ledger.core.vocabulary import ActorKind, Auth, Role
from ledger.limits import Limits
from ledger.service.asking import Asking
from ledger.v1 import review_service_pb2 as review_pb
from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import types_pb2

REQUEST_ID: Final = "0190f3c2-0000-7000-8000-000000000001"
PROCESS: Final = "_process-of-32-characters-00000"
CALLER: Final = Caller(
    Tenant("default"),
    PrincipalId("runtime"),
    ActorKind.RUNTIME,
    Auth.EMBEDDED,
    frozenset({Role.DRIVE}),
)


def asking(**limits: int) -> Asking:
    """A runtime that asks, within the default limits but those given."""
    return Asking(CALLER, Limits(**limits), b"s" * 32)


def payload(content: bytes = b"{}") -> types_pb2.Payload:
    """JSON bytes."""
    return types_pb2.Payload(content=content, media_type="application/json")


def step(name: str = "step-1", **fields: Any) -> pb.PlannedStep:
    """A write to plan."""
    given: dict[str, Any] = {
        "step": name,
        "tool": "pay",
        "tool_version": "1.0",
        "effect_class": types_pb2.EFFECT_CLASS_NON_IDEMPOTENT_WRITE,
        "arguments": payload(),
    }
    return pb.PlannedStep(**(given | fields))


def submit(*commands: pb.Command) -> bytes:
    """The bytes of a Submit."""
    return pb.SubmitRequest(commands=commands).SerializeToString()


def command(number: int = 1, run: str = "run-1") -> pb.Command:
    """An OpenRun with a request id of its own."""
    request_id = f"0190f3c2-0000-7000-8000-{number:012d}"
    return pb.Command(open_run=pb.OpenRunRequest(request_id=request_id, run=run))


_WHO: Final[dict[str, Any]] = {"request_id": REQUEST_ID, "run": "run-1"}

RIGHT: Final[dict[str, Callable[[], Message]]] = {
    "OpenRun": lambda: pb.OpenRunRequest(
        **_WHO,
        initiator="user-7",
        ceiling=types_pb2.EFFECT_CLASS_IDEMPOTENT_WRITE,
        parent="run-0",
        labels={"team": "billing", "env": "prod"},
        subject="subject-1",
        receipt=True,
    ),
    "AcquireLease": lambda: pb.AcquireLeaseRequest(
        **_WHO, holder="worker-1", process=PROCESS, ttl=Duration(seconds=30, nanos=500_000_000)
    ),
    "ReleaseLease": lambda: pb.ReleaseLeaseRequest(**_WHO, token=1, stop_reason="budget"),
    "BreakLease": lambda: pb.BreakLeaseRequest(**_WHO, reason="stuck"),
    "PlanSteps": lambda: pb.PlanStepsRequest(
        **_WHO,
        token=1,
        process=PROCESS,
        steps=[step("step-1", key=b"order-7"), step("step-2", after=["step-1"], supersedes="k")],
    ),
    "StartStep": lambda: pb.StartStepRequest(
        **_WHO,
        step="step-1",
        token=1,
        process=PROCESS,
        tool_version="1.0",
        operation_timeout=Duration(seconds=90),
    ),
    "CompleteStep": lambda: pb.CompleteStepRequest(
        **_WHO,
        step="step-1",
        attempt=1,
        token=1,
        outcome=types_pb2.OUTCOME_SUCCEEDED,
        result=payload(),
        external_reference=payload(b"INV-1"),
    ),
    "MarkUnknown": lambda: pb.MarkUnknownRequest(
        **_WHO, step="step-1", attempt=1, token=1, cause="timeout", note=payload()
    ),
    "WithdrawStep": lambda: pb.WithdrawStepRequest(
        **_WHO, step="step-1", token=1, process=PROCESS, reason="changed_mind"
    ),
    "AttachEvidence": lambda: pb.AttachEvidenceRequest(
        **_WHO,
        step="step-1",
        attempt=1,
        token=1,
        kind="lookup",
        evidence=[payload()],
        outcome=types_pb2.OUTCOME_FAILED,
    ),
    "RequestCancel": lambda: pb.RequestCancelRequest(**_WHO, reason="user"),
    "CloseRun": lambda: pb.CloseRunRequest(
        **_WHO,
        token=1,
        process=PROCESS,
        status=types_pb2.RUN_STATUS_COMPLETED,
        reason="done",
    ),
    "Reconcile": lambda: review_pb.ReconcileRequest(
        **_WHO,
        step="step-1",
        verdict=review_pb.VERDICT_EXECUTED,
        reason_code="receipt_found",
        reason=payload(b"seen"),
        evidence=[payload()],
        expected_version=7,
        supersedes_index_plus_one=6,
        result=payload(),
        proposal_index_plus_one=8,
    ),
    "ProposeDecision": lambda: review_pb.ProposeDecisionRequest(
        **_WHO,
        step="step-1",
        verdict=review_pb.VERDICT_EXECUTED,
        reason_code="receipt_found",
        reason=payload(b"seen"),
        evidence=[payload()],
        expected_version=7,
        supersedes_index_plus_one=6,
        result=payload(),
    ),
    "AllowDowngrade": lambda: review_pb.AllowDowngradeRequest(
        request_id=REQUEST_ID,
        tool="pay",
        tool_version="2.0",
        effect_class=types_pb2.EFFECT_CLASS_IDEMPOTENT_WRITE,
        reason="reviewed",
    ),
}
"""By method: a request with every field that goes together with the others."""
