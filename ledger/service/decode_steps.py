"""Protobuf to command: the commands that drive a step."""

from __future__ import annotations

from ledger.core.commands import (
    OPERATION_MS_DEFAULT,
    OPERATION_MS_MAX,
    OPERATION_MS_MIN,
    AttachEvidence,
    CompleteStep,
    MarkUnknown,
    PlanSteps,
    StartStep,
    StepPlan,
    WithdrawStep,
)
from ledger.core.errors import Malformed
from ledger.core.ids import (
    KEY_LENGTH_MAX,
    Key,
    RunId,
    StepId,
    ToolName,
    ToolVersion,
    derived_key,
    given_key,
    stands_as_given,
)
from ledger.core.vocabulary import EffectClass
from ledger.service import fields
from ledger.service.asking import Asking
from ledger.service.faults import LimitPassed, under
from ledger.v1 import run_service_pb2 as pb

_GAP = "gap"
_OWN_KINDS = frozenset({"late_completion", "late_unknown"})
"""Kinds that the ledger writes itself: nobody else's facts may pass for a report that it kept."""


def plan_steps(message: pb.PlanStepsRequest, asking: Asking) -> PlanSteps:
    """PlanSteps. A step id may stand once in a request."""
    run = fields.required_id(RunId, message.run, "run")
    token = fields.required_count(message.token, "token")
    process = fields.required_process(message.process)
    if not message.steps:
        raise Malformed("steps", "is missing")
    fields.require_at_most(message.steps, asking.limits.steps_max, "steps")
    steps: list[StepPlan] = []
    seen: set[StepId] = set()
    for at, planned in enumerate(message.steps):
        try:
            step = _step_plan(planned, run, asking)
        except Malformed as fault:
            raise under(f"steps[{at}]", fault) from None
        if step.step in seen:
            raise Malformed(f"steps[{at}].step", "is planned twice in this request")
        seen.add(step.step)
        steps.append(step)
    return PlanSteps(run, token, process, tuple(steps))


def _step_plan(message: pb.PlannedStep, run: RunId, asking: Asking) -> StepPlan:
    step = fields.required_id(StepId, message.step, "step")
    tool = fields.required_id(ToolName, message.tool, "tool")
    version = fields.required_id(ToolVersion, message.tool_version, "tool_version")
    effect = fields.optional_word(fields.EFFECT_CLASSES, message.effect_class, "effect_class")
    key, raw_key = _key(message.key, effect, run, step, asking)
    if not message.HasField("arguments"):
        raise Malformed("arguments", "is missing")
    return StepPlan(
        step,
        tool,
        version,
        fields.payload(message.arguments, "arguments", asking.limits),
        effect,
        key,
        raw_key,
        _after(message, asking) if message.after else (),
        fields.optional_id(Key, message.supersedes, "supersedes"),
    )


def _after(message: pb.PlannedStep, asking: Asking) -> tuple[StepId, ...]:
    fields.require_at_most(message.after, asking.limits.after_max, "after")
    after = tuple(
        fields.required_id(StepId, step, f"after[{at}]") for at, step in enumerate(message.after)
    )
    if len(set(after)) != len(after):
        raise Malformed("after", "names a step twice")
    return after


def _key(
    given: bytes, effect: EffectClass | None, run: RunId, step: StepId, asking: Asking
) -> tuple[Key, bytes]:
    """The key as entries hold it, and the caller's bytes where they may not stand there.

    Where the class is unset and the bound one takes no key, the decider drops what stands here.
    """
    if effect is not None and not effect.is_write:
        if given:
            raise Malformed("key", f"is given, but {effect} takes no key")
        return Key(""), b""
    if not given:
        return derived_key(tenant=asking.caller.tenant, run=run, step=step), b""
    if len(given) > KEY_LENGTH_MAX:
        raise LimitPassed("key", f"has {len(given):,} bytes, at most {KEY_LENGTH_MAX} are allowed")
    if stands_as_given(given):
        return Key(given.decode("ascii")), b""
    return given_key(given, secret=asking.key_index_secret), given


def start_step(message: pb.StartStepRequest, asking: Asking) -> StartStep:
    """StartStep; without a timeout the attempt may run for 60 s."""
    operation_ms = OPERATION_MS_DEFAULT
    if message.HasField("operation_timeout"):
        operation_ms = fields.duration_ms(
            message.operation_timeout,
            "operation_timeout",
            ms_min=OPERATION_MS_MIN,
            ms_max=OPERATION_MS_MAX,
        )
    return StartStep(
        fields.required_id(RunId, message.run, "run"),
        fields.required_id(StepId, message.step, "step"),
        fields.required_count(message.token, "token"),
        fields.required_process(message.process),
        fields.required_id(ToolVersion, message.tool_version, "tool_version"),
        operation_ms,
    )


def complete_step(message: pb.CompleteStepRequest, asking: Asking) -> CompleteStep:
    """CompleteStep."""
    limits = asking.limits
    return CompleteStep(
        fields.required_id(RunId, message.run, "run"),
        fields.required_id(StepId, message.step, "step"),
        fields.required_attempt(message.attempt),
        fields.required_count(message.token, "token"),
        fields.required_word(fields.OUTCOMES, message.outcome, "outcome"),
        fields.payload(message.result, "result", limits) if message.HasField("result") else None,
        fields.payload(message.external_reference, "external_reference", limits)
        if message.HasField("external_reference")
        else None,
    )


def mark_unknown(message: pb.MarkUnknownRequest, asking: Asking) -> MarkUnknown:
    """MarkUnknown."""
    return MarkUnknown(
        fields.required_id(RunId, message.run, "run"),
        fields.required_id(StepId, message.step, "step"),
        fields.required_attempt(message.attempt),
        fields.required_count(message.token, "token"),
        fields.required_id(str, message.cause, "cause"),
        fields.payload(message.note, "note", asking.limits) if message.HasField("note") else None,
    )


def withdraw_step(message: pb.WithdrawStepRequest, asking: Asking) -> WithdrawStep:
    """WithdrawStep."""
    return WithdrawStep(
        fields.required_id(RunId, message.run, "run"),
        fields.required_id(StepId, message.step, "step"),
        fields.required_count(message.token, "token"),
        fields.required_process(message.process),
        fields.optional_id(str, message.reason, "reason"),
    )


def attach_evidence(message: pb.AttachEvidenceRequest, asking: Asking) -> AttachEvidence:
    """AttachEvidence: 1 to 32 items, or none and a count where records were dropped."""
    kind = fields.required_id(str, message.kind, "kind")
    if kind in _OWN_KINDS:
        raise Malformed("kind", "is one that the ledger writes itself")
    step = fields.optional_id(StepId, message.step, "step")
    attempt = fields.required_attempt(message.attempt) if message.attempt else 0
    if attempt and not step:
        raise Malformed("step", "is missing, but an attempt is named")
    outcome = fields.optional_word(fields.OUTCOMES, message.outcome, "outcome")
    if outcome is not None and not attempt:
        raise Malformed("attempt", "is missing, but an outcome is given")
    dropped = fields.optional_count(message.dropped, "dropped")
    if kind == _GAP:
        if not dropped:
            raise Malformed("dropped", "is missing: a gap says how many records were dropped")
        if message.evidence:
            raise Malformed("evidence", "is given, but a gap takes none")
    else:
        if dropped:
            raise Malformed("dropped", "is given, but only a gap takes it")
        if not message.evidence:
            raise Malformed("evidence", "is missing")
    return AttachEvidence(
        fields.required_id(RunId, message.run, "run"),
        kind,
        step,
        attempt,
        fields.optional_count(message.token, "token"),
        dropped,
        outcome,
        fields.payloads(message.evidence, "evidence", asking.limits),
    )
