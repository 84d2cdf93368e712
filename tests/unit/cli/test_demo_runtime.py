"""What the demo's agent plans at first, and what it plans in place of what did not happen."""

from __future__ import annotations

from ledger.cli.demo.actions import default_actions
from ledger.cli.demo.runtime import abandoned, plan_of, superseding
from ledger.client import (
    Availability,
    EffectClass,
    Payload,
    ResumeState,
    ResumeStep,
    RunInfo,
    RunStatus,
    StepInfo,
    StepState,
    StoredPayload,
)

_NOTHING = StoredPayload(Availability.NONE)


def _step(step: str, state: StepState, *, key: str = "", supersedes: str = "") -> ResumeStep:
    info = StepInfo(
        step=step,
        tool="refund",
        tool_version="1",
        effect_class=EffectClass.NON_IDEMPOTENT_WRITE,
        key=key or f"key-{step}",
        after=(),
        supersedes=supersedes,
        state=state,
        attempt=1,
        token=1,
        deadline=None,
        version=1,
        cause="",
        contradiction=False,
    )
    arguments = StoredPayload(Availability.PRESENT, b'{"order":7}', "application/json")
    return ResumeStep(info, arguments, _NOTHING, ready=True, waiting_for="")


def _state(*steps: ResumeStep) -> ResumeState:
    run = RunInfo(
        run="r",
        status=RunStatus.UNSPECIFIED,
        reason="",
        opened_by="runtime",
        initiator="",
        parent="",
        ceiling=EffectClass.UNSPECIFIED,
        labels={},
        opened_at=None,
        changed_at=None,
        version=0,
        index=0,
        head=b"",
        lease=None,
        cancel_requested=False,
        step_counts={},
    )
    return ResumeState(run, steps)


def test_a_plan_is_one_step_after_the_other() -> None:
    agent = default_actions(1)[0]
    steps = plan_of(agent)
    assert [step.step for step in steps] == [f"s{n:02d}" for n in range(1, len(steps) + 1)]
    assert [step.after for step in steps] == [(), *((step.step,) for step in steps[:-1])]
    assert [step.arguments for step in steps] == [
        Payload(action.arguments, "application/json") for action in agent.actions
    ]


def test_what_was_decided_not_executed_is_done_under_a_new_key_once() -> None:
    given_up = _step("s01", StepState.RECONCILED_NOT_EXECUTED)
    assert abandoned(_state(given_up)) == [given_up]
    taken = _step("s01.2", StepState.PLANNED, supersedes="key-s01")
    assert abandoned(_state(given_up, taken)) == []


def test_a_withdrawn_successor_takes_no_place() -> None:
    given_up = _step("s01", StepState.RECONCILED_NOT_EXECUTED)
    withdrawn = _step("s01.2", StepState.WITHDRAWN, supersedes="key-s01")
    assert abandoned(_state(given_up, withdrawn)) == [given_up]


def test_a_successor_has_the_same_arguments_and_a_name_of_its_own() -> None:
    first = _step("s01", StepState.RECONCILED_NOT_EXECUTED)
    second = _step("s01.2", StepState.RECONCILED_NOT_EXECUTED, supersedes="key-s01")
    third = superseding(second, _state(first, second))
    assert third.step == "s01.3"
    assert third.supersedes == "key-s01.2"
    assert third.arguments == Payload(b'{"order":7}', "application/json")


def test_what_is_settled_well_is_not_done_again() -> None:
    states = (StepState.SUCCEEDED, StepState.RECONCILED_EXECUTED, StepState.UNKNOWN)
    assert abandoned(_state(*(_step(f"s{n}", state) for n, state in enumerate(states)))) == []
