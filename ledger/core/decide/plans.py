"""Planning and withdrawing steps (rules, section 7). A plan is recorded whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.core import events
from ledger.core.answers import Answer, Planned, Withdrawn
from ledger.core.commands import PlanSteps, StepPlan, WithdrawStep
from ledger.core.decide.guards import driven_run
from ledger.core.draft import Draft
from ledger.core.errors import InvariantViolation
from ledger.core.refusals import Reason, Refused
from ledger.core.run import Run
from ledger.core.run_events import SealedRef
from ledger.core.step import Arguments, Step
from ledger.core.vocabulary import EffectClass, StepState


@dataclass(frozen=True, slots=True)
class _NewStep:
    plan: StepPlan
    effect: EffectClass
    declares: bool
    payloads: tuple[SealedRef, ...]


def decide_plan(draft: Draft, command: PlanSteps) -> Answer:
    """Every step is checked before the first is recorded."""
    run = driven_run(draft, command.run, token=command.token, process=command.process)
    if isinstance(run, Refused):
        return run
    new: list[_NewStep] = []
    keys: list[str] = []
    classes: dict[tuple[str, str], EffectClass] = {}
    ahead: set[str] = set()
    for ordinal, plan in enumerate(command.steps):
        arguments = _sealed(draft, "arguments", ordinal)
        known = run.steps.get(plan.step)
        if known is not None:
            refused = _compare(draft, run, known, plan, arguments)
            if refused is not None:
                return refused
            keys.append(known.key)
            continue
        effect = _effect(draft, plan, classes)
        if isinstance(effect, Refused):
            return effect
        refused = _check_new(run, plan, effect, ahead)
        if refused is not None:
            return refused
        bound = draft.tool(name=plan.tool, version=plan.version).bound
        declares = plan.version not in bound and (plan.tool, plan.version) not in classes
        classes[(plan.tool, plan.version)] = effect
        ahead.add(plan.step)
        key_payload = draft.sealed(("key", ordinal)) if effect.is_write else None
        payloads = (arguments,) if key_payload is None else (arguments, key_payload)
        new.append(_NewStep(plan, effect, declares, payloads))
        keys.append(plan.key if effect.is_write else "")
    refused = _check_room(run, len(new), draft.policy.open_steps_max)
    if refused is not None:
        return refused
    for step in new:
        _record(draft, run, step)
    return Planned(tuple(keys), run.cancel_requested)


def _check_room(run: Run, new: int, open_steps_max: int) -> Refused | None:
    """Whatever ends the run has to fit into one batch (ADR 8)."""
    if not new or run.open_steps + new <= open_steps_max:
        return None
    return Refused(
        Reason.LIMIT_EXCEEDED,
        f"At most {open_steps_max:,} steps of a run may be planned or started at once; it has "
        f"{run.open_steps:,}, and {new:,} would be new. Nothing was recorded. Plan the rest once "
        "some of these ended or were withdrawn, or in another run.",
        run=run.run_id,
        details={
            "open_steps": str(run.open_steps),
            "new_steps": str(new),
            "open_steps_max": str(open_steps_max),
        },
    )


def _record(draft: Draft, run: Run, step: _NewStep) -> None:
    plan = step.plan
    if step.declares:
        draft.record_in_log(
            events.ToolDeclared(tool=plan.tool, version=plan.version, effect=step.effect),
            as_part=False,
        )
    draft.record(
        run,
        events.StepPlanned(
            step=plan.step,
            tool=plan.tool,
            version=plan.version,
            effect=step.effect,
            key=plan.key if step.effect.is_write else "",
            after=plan.after,
            supersedes=plan.supersedes if step.effect.is_write else "",
        ),
        step.payloads,
    )


def _sealed(draft: Draft, name: str, ordinal: int) -> SealedRef:
    sealed = draft.sealed((name, ordinal))
    if sealed is None:
        raise InvariantViolation(f"{name} {ordinal} of a plan was not sealed before the lock")
    return sealed


def _compare(
    draft: Draft, run: Run, known: Step, plan: StepPlan, arguments: SealedRef
) -> Refused | None:
    """None if the step was planned before with equal content."""
    if known.state is StepState.WITHDRAWN:
        return Refused(
            Reason.STEP_WITHDRAWN,
            "The step was withdrawn and cannot be planned again. Nothing was recorded. Plan it "
            "under another id.",
            run=run.run_id,
            step=known.id,
        )
    for name, before, now in (
        ("tool", known.tool, plan.tool),
        ("tool_version", known.tool_version, plan.version),
        ("effect_class", known.effect, plan.effect or known.effect),
        ("key", known.key, plan.key if known.is_write else ""),
        ("after", known.after, plan.after),
        ("supersedes", known.supersedes, plan.supersedes if known.is_write else ""),
    ):
        if before != now:
            return _mismatch(run, known, plan, name)
    candidate = Arguments(arguments.id, arguments.key_id, arguments.fingerprint)
    same = draft.same_arguments(tool=plan.tool, first=known.arguments, other=candidate)
    if same is None:
        return Refused(
            Reason.ARGUMENTS_ERASED,
            "The planned arguments were erased, so it cannot be told whether these are the same. "
            "Nothing was recorded. Plan the action under another step id.",
            run=run.run_id,
            step=known.id,
        )
    return None if same else _mismatch(run, known, plan, "arguments")


def _mismatch(run: Run, known: Step, plan: StepPlan, name: str) -> Refused:
    return Refused(
        Reason.PLAN_MISMATCH,
        f"The step is planned with another {name}. Nothing was recorded. A plan never changes: "
        "withdraw the step and plan anew under another id.",
        run=run.run_id,
        step=known.id,
        details={
            "field": name,
            "planned_tool": f"{known.tool}@{known.tool_version}",
            "given_tool": f"{plan.tool}@{plan.version}",
        },
    )


def _effect(
    draft: Draft, plan: StepPlan, classes: dict[tuple[str, str], EffectClass]
) -> EffectClass | Refused:
    """The class that the step gets: bound by the first declaration of (tool, version)."""
    tool = draft.tool(name=plan.tool, version=plan.version)
    bound = tool.bound.get(plan.version) or classes.get((plan.tool, plan.version))
    if bound is not None:
        if plan.effect is None or plan.effect is bound:
            return bound
        return Refused(
            Reason.CLASS_MISMATCH,
            f"This version of the tool is bound to class {bound.value}. Nothing was recorded. "
            "Correct the declaration, or give the changed tool a new version.",
            step=plan.step,
            details={"bound": bound.value, "given": plan.effect.value},
        )
    effect = plan.effect or EffectClass.NON_IDEMPOTENT_WRITE
    ahead = [c for (name, _), c in classes.items() if name == plan.tool and c.is_write]
    writes = [*ahead, *([tool.strongest] if tool.strongest else [])]
    strongest = max(writes, key=lambda c: c.rank, default=None)
    if strongest is None or effect.rank >= strongest.rank:
        return effect
    allowed = tool.allowed.get(plan.version)
    if allowed is not None and effect.rank >= allowed.rank:
        return effect
    return Refused(
        Reason.CLASS_DOWNGRADE,
        f"The tool was once recorded as {strongest.value}; {effect.value} is weaker. Nothing was "
        "recorded. Have an admin allow the weaker class for this version.",
        step=plan.step,
        details={"strongest": strongest.value, "given": effect.value},
    )


def _check_new(run: Run, plan: StepPlan, effect: EffectClass, ahead: set[str]) -> Refused | None:
    if effect.rank > run.ceiling.rank:
        return Refused(
            Reason.ABOVE_CEILING,
            f"The run allows nothing above {run.ceiling.value}; the step is {effect.value}. "
            "Nothing was recorded.",
            run=run.run_id,
            step=plan.step,
            details={"ceiling": run.ceiling.value, "class": effect.value},
        )
    if plan.step in ahead:
        return Refused(
            Reason.PLAN_MISMATCH,
            "The step stands twice in this request. Nothing was recorded.",
            run=run.run_id,
            step=plan.step,
            details={"field": "step"},
        )
    for waits_for in plan.after:
        if waits_for not in run.steps and waits_for not in ahead:
            return Refused(
                Reason.STEP_NOT_PLANNED,
                "The step waits for one that is planned neither before nor earlier in this "
                "request. Nothing was recorded.",
                run=run.run_id,
                step=waits_for,
                details={"after_of": plan.step},
            )
    return None


def decide_withdraw(draft: Draft, command: WithdrawStep) -> Answer:
    """Before any start only. Withdrawn before: answered, no event."""
    run = driven_run(draft, command.run, token=command.token, process=command.process)
    if isinstance(run, Refused):
        return run
    step = run.steps.get(command.step)
    if step is None:
        return Refused(
            Reason.STEP_NOT_PLANNED,
            "The step is not planned in this run. Nothing was recorded.",
            run=run.run_id,
            step=command.step,
        )
    if step.state is StepState.PLANNED:
        draft.record(run, events.StepWithdrawn(step=step.id, reason=command.reason))
    elif step.state is not StepState.WITHDRAWN:
        return Refused(
            Reason.WRONG_STATE,
            f"The step is {step.state.value}; only a planned step can be withdrawn. Nothing was "
            "recorded.",
            run=run.run_id,
            step=step.id,
            details={"state": step.state.value},
        )
    return Withdrawn(run.cancel_requested)
