"""ADR 8, and rules, section 7: how much of a run may be open, and how much stands in one batch."""

from __future__ import annotations

from collections import Counter

from ledger.batch import EVENTS_MAX
from ledger.core.answers import Answered
from ledger.core.commands import OPEN_STEPS_MAX, CloseRun, Command, PlanSteps
from ledger.core.policy import Policy
from ledger.core.vocabulary import Outcome, RunStatus
from tests.support.driving import IDEMPOTENT, Driver, driven, refusal, said
from tests.support.in_process import LedgerInProcess


def _narrow(ledger: LedgerInProcess, *, open_steps_max: int) -> Driver:
    """A run driven through a server that lets it have few open steps."""
    ledger.replica(policy=Policy(open_steps_max=open_steps_max))
    driver = driven(ledger, ttl_s=600)
    driver.at = 1
    return driver


def test_a_run_with_too_many_open_steps_is_planned_no_further(ledger: LedgerInProcess) -> None:
    driver = _narrow(ledger, open_steps_max=3)
    steps = [driver.step_plan(f"s{n}") for n in range(4)]
    before = ledger.types()
    refused = refusal(driver.plan_all(*steps))
    assert refused.reason.name == "LIMIT_EXCEEDED"
    assert refused.details == {"open_steps": "0", "new_steps": "4", "open_steps_max": "3"}
    assert ledger.types() == before
    assert said(driver.plan_all(*steps[:3])) == "ok"
    assert said(driver.plan("one-more")) == "LIMIT_EXCEEDED"


def test_a_plan_that_stands_is_answered_however_many_steps_are_open(
    ledger: LedgerInProcess,
) -> None:
    driver = _narrow(ledger, open_steps_max=2)
    steps = [driver.step_plan(f"s{n}") for n in range(2)]
    assert said(driver.plan_all(*steps)) == "ok"
    assert said(driver.plan_all(*steps)) == "ok"
    assert ledger.types("run-1").count("step.planned") == 2


def test_steps_that_ended_or_were_withdrawn_make_room(ledger: LedgerInProcess) -> None:
    driver = _narrow(ledger, open_steps_max=2)
    driver.started("s")
    driver.plan("t")
    assert said(driver.plan("u")) == "LIMIT_EXCEEDED"
    driver.complete("s")
    assert said(driver.plan("u")) == "ok"
    driver.withdraw("t")
    assert said(driver.plan("v")) == "ok"
    assert said(driver.plan("w")) == "LIMIT_EXCEEDED"


def test_a_step_is_started_again_only_where_there_is_room(ledger: LedgerInProcess) -> None:
    driver = _narrow(ledger, open_steps_max=2)
    driver.left_unknown("s", effect=IDEMPOTENT)
    driver.ended("t", Outcome.NO_EFFECT)
    driver.plan_all(driver.step_plan("u"), driver.step_plan("v"))
    assert said(driver.start("u")) == "EXECUTE"
    for step in ("s", "t"):
        refused = refusal(driver.start(step))
        assert (refused.reason.name, refused.details["open_steps_max"]) == ("LIMIT_EXCEEDED", "2")
    driver.complete("u")
    assert said(driver.start("s")) == "EXECUTE"


def _filled(ledger: LedgerInProcess, run: str, *, steps: int) -> Driver:
    driver = driven(ledger, run, ttl_s=3_600)
    for first in range(0, steps, 1_000):
        plan = [driver.step_plan(f"s{n}", arguments=b"{}") for n in range(first, first + 1_000)]
        assert said(driver.plan_all(*plan)) == "ok"
    return driver


def _batches(ledger: LedgerInProcess) -> list[int]:
    """How many entries share a moment: those of one batch."""
    return list(Counter(entry.recorded_at_us for entry in ledger.entries()).values())


def test_a_message_too_large_for_one_batch_is_cut_and_each_command_answered(
    ledger: LedgerInProcess,
) -> None:
    one, two = (_filled(ledger, run, steps=OPEN_STEPS_MAX) for run in ("run-1", "run-2"))
    three = driven(ledger, "run-3", ttl_s=3_600)
    many_tools = [three.step_plan(f"s{n}", tool=f"tool-{n}", arguments=b"{}") for n in range(1_000)]
    commands: list[Command] = [
        *(CloseRun(d.run, d.token, d.process, RunStatus.CANCELLED) for d in (one, two)),
        PlanSteps(three.run, three.token, three.process, tuple(many_tools)),
        CloseRun(three.run, three.token, three.process, RunStatus.CANCELLED),
    ]
    outcomes = ledger.submit(*(ledger.request(command) for command in commands))
    assert [said(each.answer) for each in outcomes if isinstance(each, Answered)] == ["ok"] * 4
    assert sum(entry.type == "run.closed" for entry in ledger.entries()) == 3
    batches = _batches(ledger)
    assert max(batches) <= EVENTS_MAX
    assert sorted(batches)[-2:] == [3_001, 2 * (OPEN_STEPS_MAX + 1)]


def test_a_run_planned_before_there_was_a_limit_is_still_closed_whole(
    ledger: LedgerInProcess,
) -> None:
    ledger.replica(policy=Policy(open_steps_max=5_000))
    driver = driven(ledger, "run-1", ttl_s=3_600)
    driver.at = 1
    for first in range(0, 5_000, 1_000):
        steps = [driver.step_plan(f"s{n}", arguments=b"{}") for n in range(first, first + 1_000)]
        assert said(driver.plan_all(*steps)) == "ok"
    driver.at = 0
    assert said(driver.close(RunStatus.FAILED)) == "ok"
    assert ledger.types("run-1").count("step.withdrawn") == 5_000
