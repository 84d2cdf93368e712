"""Requests of the wire, built and checked. Pure but for the request id, which is made here once per
logical call.

Everything raises `InvalidRequest` naming the field path; nothing is sent then.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from google.protobuf.duration_pb2 import Duration

from ledger.client import checks
from ledger.client.checks import DEFAULT_LIMITS, Checks, Limits
from ledger.client.payloads import ABSENT, Absent, Content, payload_from
from ledger.client.process import Process
from ledger.client.words import EffectClass, Outcome, RunStatus
from ledger.core import ids
from ledger.v1 import run_service_pb2 as runs
from ledger.v1 import types_pb2 as types


@dataclass(frozen=True, slots=True)
class Step:
    """One intended action, as it is planned. Immutable once planned.

    `arguments` are any JSON value, sent as RFC 8785 bytes, or a `Payload` of raw bytes. Without a
    `key` the ledger derives one from (tenant, run, step). `supersedes` is the abandoned key this
    one replaces.
    """

    step: str
    tool: str
    version: str
    arguments: Content = field(default_factory=dict, repr=False)
    effect_class: EffectClass = EffectClass.UNSPECIFIED
    key: str | bytes | None = None
    after: tuple[str, ...] = ()
    supersedes: str = ""


@dataclass(frozen=True, slots=True)
class Driving:
    """What the driving calls carry: the run, the lease's token, and the process it belongs to."""

    run: str
    token: int
    process: Process


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of a step, as EXECUTE named it."""

    run: str
    step: str
    attempt: int
    token: int


def new_request_id() -> str:
    """A UUIDv7: made once per logical call and kept over all its tries."""
    return ids.uuid7(unix_ms=time.time_ns() // 1_000_000, random=secrets.token_bytes(10))


def open_run(
    run: str,
    *,
    initiator: str = "",
    ceiling: EffectClass = EffectClass.UNSPECIFIED,
    parent: str = "",
    labels: Mapping[str, str] | None = None,
    subject: str = "",
    receipt: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> runs.OpenRunRequest:
    """OpenRun: of an existing run with equal content it answers the run and appends nothing."""
    check = Checks(limits)
    check.client_id(run, path="run")
    check.client_id(initiator, path="initiator", optional=True)
    check.client_id(parent, path="parent", optional=True)
    check.client_id(subject, path="subject", optional=True)
    labels = dict(labels or {})
    check.count(list(labels), path="labels", least=0, most=checks.LABELS_MAX)
    for name, text in labels.items():
        check.any_id(name, path="labels")
        check.any_id(text, path=f"labels[{name!a}]")
    check.finish()
    return runs.OpenRunRequest(
        request_id=new_request_id(),
        run=run,
        initiator=initiator,
        ceiling=types.EffectClass.ValueType(ceiling),
        parent=parent,
        labels=labels,
        subject=subject,
        receipt=receipt,
    )


def acquire_lease(
    run: str, *, holder: str, process: Process, ttl_s: float, limits: Limits = DEFAULT_LIMITS
) -> runs.AcquireLeaseRequest:
    """AcquireLease for this process."""
    check = Checks(limits)
    check.client_id(run, path="run")
    check.client_id(holder, path="holder")
    check.seconds(ttl_s, path="ttl", least=checks.LEASE_S_MIN, most=checks.LEASE_S_MAX)
    check.finish()
    return runs.AcquireLeaseRequest(
        request_id=new_request_id(),
        run=run,
        holder=holder,
        process=process.nonce,
        ttl=duration(ttl_s),
    )


def renew_lease(driving: Driving, *, ttl_s: float) -> runs.RenewLeaseRequest:
    """RenewLease. It has no request id: it appends nothing and may be repeated freely."""
    return runs.RenewLeaseRequest(
        run=driving.run,
        token=driving.token,
        process=driving.process.nonce,
        ttl=duration(ttl_s),
    )


def release_lease(
    driving: Driving, *, stop_reason: str, limits: Limits = DEFAULT_LIMITS
) -> runs.ReleaseLeaseRequest:
    """ReleaseLease: started writes become UNKNOWN at once."""
    check = Checks(limits)
    check.any_id(stop_reason, path="stop_reason", optional=True)
    check.finish()
    return runs.ReleaseLeaseRequest(
        request_id=new_request_id(),
        run=driving.run,
        token=driving.token,
        stop_reason=stop_reason,
    )


def break_lease(
    run: str, *, reason: str, limits: Limits = DEFAULT_LIMITS
) -> runs.BreakLeaseRequest:
    """BreakLease (admin)."""
    check = Checks(limits)
    check.client_id(run, path="run")
    check.any_id(reason, path="reason")
    check.finish()
    return runs.BreakLeaseRequest(request_id=new_request_id(), run=run, reason=reason)


def plan_steps(
    driving: Driving,
    steps: Sequence[Step],
    *,
    receipt: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> runs.PlanStepsRequest:
    """PlanSteps, all or none."""
    check = Checks(limits)
    check.count(steps, path="steps", least=1, most=limits.steps_max)
    check.finish()
    planned = [_planned(step, path=f"steps[{n}]", check=check) for n, step in enumerate(steps)]
    check.finish()
    return runs.PlanStepsRequest(
        request_id=new_request_id(),
        run=driving.run,
        token=driving.token,
        process=driving.process.nonce,
        steps=planned,
        receipt=receipt,
    )


def start_step(
    driving: Driving,
    step: str,
    *,
    tool_version: str,
    timeout_s: float | None = None,
    receipt: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> runs.StartStepRequest:
    """StartStep. `timeout_s` is the operation timeout; unset takes the server's (60 s)."""
    check = Checks(limits)
    check.client_id(step, path="step")
    check.any_id(tool_version, path="tool_version")
    if timeout_s is not None:
        check.seconds(
            timeout_s,
            path="operation_timeout",
            least=checks.OPERATION_S_MIN,
            most=checks.OPERATION_S_MAX,
        )
    check.finish()
    return runs.StartStepRequest(
        request_id=new_request_id(),
        run=driving.run,
        step=step,
        token=driving.token,
        process=driving.process.nonce,
        tool_version=tool_version,
        operation_timeout=None if timeout_s is None else duration(timeout_s),
        receipt=receipt,
    )


def complete_step(
    attempt: Attempt,
    *,
    outcome: Outcome,
    result: Content | Absent = ABSENT,
    external_reference: Content | Absent = ABSENT,
    receipt: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> runs.CompleteStepRequest:
    """CompleteStep."""
    check = Checks(limits)
    request = runs.CompleteStepRequest(
        request_id=new_request_id(),
        run=attempt.run,
        step=attempt.step,
        attempt=attempt.attempt,
        token=attempt.token,
        outcome=types.Outcome.ValueType(outcome),
        result=content_of(result, path="result", check=check),
        external_reference=content_of(external_reference, path="external_reference", check=check),
        receipt=receipt,
    )
    check.finish()
    return request


def mark_unknown(
    attempt: Attempt,
    *,
    cause: str,
    note: Content | Absent = ABSENT,
    limits: Limits = DEFAULT_LIMITS,
) -> runs.MarkUnknownRequest:
    """MarkUnknown."""
    check = Checks(limits)
    check.any_id(cause, path="cause")
    request = runs.MarkUnknownRequest(
        request_id=new_request_id(),
        run=attempt.run,
        step=attempt.step,
        attempt=attempt.attempt,
        token=attempt.token,
        cause=cause,
        note=content_of(note, path="note", check=check),
    )
    check.finish()
    return request


def withdraw_step(
    driving: Driving, step: str, *, reason: str = "", limits: Limits = DEFAULT_LIMITS
) -> runs.WithdrawStepRequest:
    """WithdrawStep, before any start."""
    check = Checks(limits)
    check.client_id(step, path="step")
    check.any_id(reason, path="reason", optional=True)
    check.finish()
    return runs.WithdrawStepRequest(
        request_id=new_request_id(),
        run=driving.run,
        step=step,
        token=driving.token,
        process=driving.process.nonce,
        reason=reason,
    )


def attach_evidence(
    run: str,
    *,
    kind: str,
    evidence: Sequence[Content] = (),
    step: str = "",
    attempt: int = 0,
    token: int = 0,
    dropped: int = 0,
    outcome: Outcome = Outcome.UNSPECIFIED,
    limits: Limits = DEFAULT_LIMITS,
) -> runs.AttachEvidenceRequest:
    """AttachEvidence: facts about a step, or about the run where `step` is empty."""
    check = Checks(limits)
    check.client_id(run, path="run")
    check.client_id(step, path="step", optional=True)
    check.any_id(kind, path="kind")
    check.count(evidence, path="evidence", least=0, most=checks.EVIDENCE_MAX)
    items = [
        content_of(item, path=f"evidence[{n}]", check=check) for n, item in enumerate(evidence)
    ]
    check.finish()
    return runs.AttachEvidenceRequest(
        request_id=new_request_id(),
        run=run,
        step=step,
        attempt=attempt,
        token=token,
        kind=kind,
        evidence=[item for item in items if item is not None],
        dropped=dropped,
        outcome=types.Outcome.ValueType(outcome),
    )


def request_cancel(
    run: str, *, reason: str = "", limits: Limits = DEFAULT_LIMITS
) -> runs.RequestCancelRequest:
    """RequestCancel: nothing more may start in the run."""
    check = Checks(limits)
    check.client_id(run, path="run")
    check.any_id(reason, path="reason", optional=True)
    check.finish()
    return runs.RequestCancelRequest(request_id=new_request_id(), run=run, reason=reason)


def close_run(
    driving: Driving, *, status: RunStatus, reason: str = "", limits: Limits = DEFAULT_LIMITS
) -> runs.CloseRunRequest:
    """CloseRun."""
    check = Checks(limits)
    check.any_id(reason, path="reason", optional=True)
    check.finish()
    return runs.CloseRunRequest(
        request_id=new_request_id(),
        run=driving.run,
        token=driving.token,
        process=driving.process.nonce,
        status=types.RunStatus.ValueType(status),
        reason=reason,
    )


def duration(seconds: float) -> Duration:
    """A duration of the wire, to the nanosecond."""
    nanos = round(seconds * 1e9)
    return Duration(seconds=nanos // 1_000_000_000, nanos=nanos % 1_000_000_000)


def _planned(step: Step, *, path: str, check: Checks) -> runs.PlannedStep:
    check.client_id(step.step, path=f"{path}.step")
    check.client_id(step.tool, path=f"{path}.tool")
    check.any_id(step.version, path=f"{path}.tool_version")
    check.count(step.after, path=f"{path}.after", least=0, most=checks.AFTER_MAX)
    for n, other in enumerate(step.after):
        check.client_id(other, path=f"{path}.after[{n}]")
    check.any_id(step.supersedes, path=f"{path}.supersedes", optional=True)
    if step.effect_class.harmless and step.key is not None:
        check.fault(f"{path}.key", f"is given, and {step.effect_class.name} takes none")
    return runs.PlannedStep(
        step=step.step,
        tool=step.tool,
        tool_version=step.version,
        effect_class=types.EffectClass.ValueType(step.effect_class),
        key=check.key(step.key, path=f"{path}.key"),
        after=step.after,
        supersedes=step.supersedes,
        arguments=content_of(step.arguments, path=f"{path}.arguments", check=check),
    )


def content_of(content: Content | Absent, *, path: str, check: Checks) -> types.Payload | None:
    """A payload of the wire, checked; None where there is none."""
    if isinstance(content, Absent):
        return None
    payload = check.payload(
        payload_from(content, path=path, depth_max=check.limits.nesting_max), path=path
    )
    return types.Payload(
        content=payload.content, media_type=payload.media_type, subject=payload.subject
    )
