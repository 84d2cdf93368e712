"""Requests of reviewers and admins, built and checked. As `ledger.client.requests`."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.client import checks
from ledger.client.checks import DEFAULT_LIMITS, Checks, Limits
from ledger.client.payloads import ABSENT, Absent, Content, Payload
from ledger.client.requests import content_of, new_request_id
from ledger.client.words import EffectClass, Verdict
from ledger.v1 import review_service_pb2 as reviews
from ledger.v1 import types_pb2 as types


def reconcile(
    *,
    run: str,
    step: str,
    verdict: Verdict,
    expected_version: int,
    reason_code: str,
    reason: str = "",
    evidence: Sequence[Content] = (),
    result: Content | Absent = ABSENT,
    supersedes_index: int | None = None,
    proposal_index: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> reviews.ReconcileRequest:
    """Reconcile. `supersedes_index` is the index of the decision that this one supersedes,
    `proposal_index` that of the proposal it confirms."""
    request = reviews.ReconcileRequest(
        proposal_index_plus_one=0 if proposal_index is None else proposal_index + 1
    )
    _decide(
        request,
        run=run,
        step=step,
        verdict=verdict,
        expected_version=expected_version,
        reason_code=reason_code,
        reason=reason,
        evidence=evidence,
        result=result,
        supersedes_index=supersedes_index,
        limits=limits,
    )
    return request


def propose_decision(
    *,
    run: str,
    step: str,
    verdict: Verdict,
    expected_version: int,
    reason_code: str,
    reason: str = "",
    evidence: Sequence[Content] = (),
    result: Content | Absent = ABSENT,
    supersedes_index: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> reviews.ProposeDecisionRequest:
    """ProposeDecision. `supersedes_index` is the index of the decision it would supersede."""
    request = reviews.ProposeDecisionRequest()
    _decide(
        request,
        run=run,
        step=step,
        verdict=verdict,
        expected_version=expected_version,
        reason_code=reason_code,
        reason=reason,
        evidence=evidence,
        result=result,
        supersedes_index=supersedes_index,
        limits=limits,
    )
    return request


def _decide(
    request: reviews.ReconcileRequest | reviews.ProposeDecisionRequest,
    *,
    run: str,
    step: str,
    verdict: Verdict,
    expected_version: int,
    reason_code: str,
    reason: str,
    evidence: Sequence[Content],
    result: Content | Absent,
    supersedes_index: int | None,
    limits: Limits,
) -> None:
    """Checks and fills in what a decision and a proposal have in common."""
    check = Checks(limits)
    check.client_id(run, path="run")
    check.client_id(step, path="step")
    check.any_id(reason_code, path="reason_code")
    check.count(evidence, path="evidence", least=0, most=checks.EVIDENCE_MAX)
    items = [
        content_of(item, path=f"evidence[{n}]", check=check) for n, item in enumerate(evidence)
    ]
    words: Content | Absent = ABSENT
    if reason:
        words = _text_payload(reason, check=check)
    request.request_id = new_request_id()
    request.run, request.step = run, step
    request.verdict = reviews.Verdict.ValueType(verdict)
    request.reason_code = reason_code
    request.expected_version = expected_version
    request.supersedes_index_plus_one = 0 if supersedes_index is None else supersedes_index + 1
    request.evidence.extend(item for item in items if item is not None)
    for name, content in (("reason", words), ("result", result)):
        made = content_of(content, path=name, check=check)
        if made is not None:
            getattr(request, name).CopyFrom(made)
    check.finish()


def allow_downgrade(
    *,
    tool: str,
    tool_version: str,
    effect_class: EffectClass,
    reason: str,
    limits: Limits = DEFAULT_LIMITS,
) -> reviews.AllowDowngradeRequest:
    """AllowDowngrade (admin)."""
    check = Checks(limits)
    check.client_id(tool, path="tool")
    check.any_id(tool_version, path="tool_version")
    check.any_id(reason, path="reason")
    check.finish()
    return reviews.AllowDowngradeRequest(
        request_id=new_request_id(),
        tool=tool,
        tool_version=tool_version,
        effect_class=types.EffectClass.ValueType(effect_class),
        reason=reason,
    )


def _text_payload(text: str, *, check: Checks) -> Payload:
    try:
        return Payload(text.encode("utf-8"), "text/plain;charset=utf-8")
    except UnicodeEncodeError:
        check.fault("reason", "holds a lone surrogate")
        return Payload(b"", "text/plain;charset=utf-8")
