"""Protobuf to command: the commands on a run, its lease, and those of reviewers and admins."""

from __future__ import annotations

from ledger.core.commands import (
    LEASE_TTL_MS_DEFAULT,
    LEASE_TTL_MS_MAX,
    LEASE_TTL_MS_MIN,
    AcquireLease,
    AllowDowngrade,
    BreakLease,
    CloseRun,
    OpenRun,
    Payload,
    ProposeDecision,
    Reconcile,
    ReleaseLease,
    RenewLease,
    RequestCancel,
)
from ledger.core.errors import Malformed
from ledger.core.ids import (
    HolderName,
    PrincipalId,
    RunId,
    StepId,
    SubjectId,
    ToolName,
    ToolVersion,
)
from ledger.core.vocabulary import EffectClass, Verdict
from ledger.service import fields
from ledger.service.asking import Asking
from ledger.v1 import review_service_pb2 as review_pb
from ledger.v1 import run_service_pb2 as pb


def open_run(message: pb.OpenRunRequest, asking: Asking) -> OpenRun:
    """OpenRun; an unset ceiling allows every class."""
    fields.require_at_most(message.labels, asking.limits.labels_max, "labels")
    labels = []
    for name in sorted(message.labels):
        fields.required_id(str, name, "labels")
        labels.append((name, fields.required_id(str, message.labels[name], f"labels.{name}")))
    ceiling = fields.optional_word(fields.EFFECT_CLASSES, message.ceiling, "ceiling")
    return OpenRun(
        fields.required_id(RunId, message.run, "run"),
        fields.optional_id(PrincipalId, message.initiator, "initiator"),
        ceiling or EffectClass.NON_IDEMPOTENT_WRITE,
        fields.optional_id(RunId, message.parent, "parent"),
        tuple(labels),
        fields.optional_id(SubjectId, message.subject, "subject"),
    )


def acquire_lease(message: pb.AcquireLeaseRequest, asking: Asking) -> AcquireLease:
    """AcquireLease; an unset time to live is 30 s."""
    return AcquireLease(
        fields.required_id(RunId, message.run, "run"),
        fields.required_id(HolderName, message.holder, "holder"),
        fields.required_process(message.process),
        _ttl_ms(message),
    )


def renew_lease(message: pb.RenewLeaseRequest, asking: Asking) -> RenewLease:
    """RenewLease: no request id, it appends nothing."""
    return RenewLease(
        fields.required_id(RunId, message.run, "run"),
        fields.required_count(message.token, "token"),
        fields.required_process(message.process),
        _ttl_ms(message),
    )


def _ttl_ms(message: pb.AcquireLeaseRequest | pb.RenewLeaseRequest) -> int:
    if not message.HasField("ttl"):
        return LEASE_TTL_MS_DEFAULT
    return fields.duration_ms(message.ttl, "ttl", ms_min=LEASE_TTL_MS_MIN, ms_max=LEASE_TTL_MS_MAX)


def release_lease(message: pb.ReleaseLeaseRequest, asking: Asking) -> ReleaseLease:
    """ReleaseLease."""
    return ReleaseLease(
        fields.required_id(RunId, message.run, "run"),
        fields.required_count(message.token, "token"),
        fields.optional_id(str, message.stop_reason, "stop_reason"),
    )


def break_lease(message: pb.BreakLeaseRequest, asking: Asking) -> BreakLease:
    """BreakLease."""
    return BreakLease(
        fields.required_id(RunId, message.run, "run"),
        fields.required_id(str, message.reason, "reason"),
    )


def request_cancel(message: pb.RequestCancelRequest, asking: Asking) -> RequestCancel:
    """RequestCancel."""
    return RequestCancel(
        fields.required_id(RunId, message.run, "run"),
        fields.optional_id(str, message.reason, "reason"),
    )


def close_run(message: pb.CloseRunRequest, asking: Asking) -> CloseRun:
    """CloseRun."""
    return CloseRun(
        fields.required_id(RunId, message.run, "run"),
        fields.required_count(message.token, "token"),
        fields.required_process(message.process),
        fields.required_word(fields.RUN_STATUSES, message.status, "status"),
        fields.optional_id(str, message.reason, "reason"),
    )


def reconcile(message: review_pb.ReconcileRequest, asking: Asking) -> Reconcile:
    """Reconcile. A result goes with `executed` only."""
    proposed = fields.optional_count(message.proposal_index_plus_one, "proposal_index_plus_one")
    proposal = proposed - 1 if proposed else None
    return Reconcile(*_decision(message, asking), proposal_index=proposal)


def propose_decision(message: review_pb.ProposeDecisionRequest, asking: Asking) -> ProposeDecision:
    """ProposeDecision. A result goes with `executed` only."""
    return ProposeDecision(*_decision(message, asking))


_Decision = tuple[
    RunId,
    StepId,
    Verdict,
    str,
    int,
    int | None,
    Payload | None,
    tuple[Payload, ...],
    Payload | None,
]


def _decision(
    message: review_pb.ReconcileRequest | review_pb.ProposeDecisionRequest, asking: Asking
) -> _Decision:
    limits = asking.limits
    verdict = fields.required_word(fields.VERDICTS, message.verdict, "verdict")
    if message.HasField("result") and verdict is not Verdict.EXECUTED:
        raise Malformed("result", "is given, but what was not executed has none")
    above = fields.optional_count(message.supersedes_index_plus_one, "supersedes_index_plus_one")
    return (
        fields.required_id(RunId, message.run, "run"),
        fields.required_id(StepId, message.step, "step"),
        verdict,
        fields.required_id(str, message.reason_code, "reason_code"),
        fields.required_count(message.expected_version, "expected_version"),
        above - 1 if above else None,
        fields.payload(message.reason, "reason", limits) if message.HasField("reason") else None,
        fields.payloads(message.evidence, "evidence", limits),
        fields.payload(message.result, "result", limits) if message.HasField("result") else None,
    )


def allow_downgrade(message: review_pb.AllowDowngradeRequest, asking: Asking) -> AllowDowngrade:
    """AllowDowngrade."""
    return AllowDowngrade(
        fields.required_id(ToolName, message.tool, "tool"),
        fields.required_id(ToolVersion, message.tool_version, "tool_version"),
        fields.required_word(fields.EFFECT_CLASSES, message.effect_class, "effect_class"),
        fields.required_id(str, message.reason, "reason"),
    )
