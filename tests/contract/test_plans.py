"""Rules, section 7: plans whole or not at all, tools that bind their class, ceilings."""

from __future__ import annotations

from itertools import combinations

import pytest

from ledger.core.answers import Planned
from ledger.core.commands import AllowDowngrade, OpenRun, PlanSteps
from ledger.core.entry import Entry
from ledger.core.ids import RunId, ToolName, ToolVersion
from ledger.core.vocabulary import EffectClass
from tests.support.driving import (
    IDEMPOTENT,
    NON_IDEMPOTENT,
    PROPOSE,
    READ_ONLY,
    Driver,
    driven,
    refusal,
    said,
)
from tests.support.in_process import ADMIN, RUNTIME_2, LedgerInProcess

CLASSES = (READ_ONLY, PROPOSE, IDEMPOTENT, NON_IDEMPOTENT)


def _body(entry: Entry) -> dict[str, object]:
    body = entry.event["body"]
    assert isinstance(body, dict)
    return dict(body)


def _allow(version: str, effect: EffectClass) -> AllowDowngrade:
    return AllowDowngrade(ToolName("refund"), ToolVersion(version), effect, "audited")


def test_a_plan_writes_one_entry_a_step_in_order_with_parts_from_zero(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.plan_all(*(driver.step_plan(f"s{at}") for at in range(5)))
    planned = [entry for entry in ledger.entries("run-1") if entry.type == "step.planned"]
    assert [_body(entry)["step"] for entry in planned] == [f"s{at}" for at in range(5)]
    requests = [entry.event["request"] for entry in planned]
    assert [request["part"] for request in requests if isinstance(request, dict)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("bad", ["class", "ceiling", "mismatch", "withdrawn", "after", "twice"])
def test_a_plan_with_one_bad_step_is_refused_whole(ledger: LedgerInProcess, bad: str) -> None:
    ledger.ask(OpenRun(RunId("run-1"), ceiling=IDEMPOTENT))
    driver = Driver(ledger, RunId("run-1"))
    driver.acquire()
    driver.plan("known", tool="put", effect=IDEMPOTENT)
    driver.plan("gone", tool="put")
    driver.withdraw("gone")
    before = ledger.types()
    wrong = {
        "class": driver.step_plan("x", tool="put", effect=READ_ONLY),
        "ceiling": driver.step_plan("x", tool="send"),
        "mismatch": driver.step_plan("known", tool="put", arguments=b"other"),
        "withdrawn": driver.step_plan("gone", tool="put"),
        "after": driver.step_plan("x", tool="put", after=["later"]),
        "twice": driver.step_plan("a", tool="put"),
    }[bad]
    answer = driver.plan_all(
        driver.step_plan("a", tool="put"), wrong, driver.step_plan("later", tool="put")
    )
    assert (
        said(answer)
        == {
            "class": "CLASS_MISMATCH",
            "ceiling": "ABOVE_CEILING",
            "mismatch": "PLAN_MISMATCH",
            "withdrawn": "STEP_WITHDRAWN",
            "after": "STEP_NOT_PLANNED",
            "twice": "PLAN_MISMATCH",
        }[bad]
    )
    assert ledger.types() == before


def test_steps_that_are_planned_already_are_answered_and_only_new_ones_written(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.plan("a")
    answer = driver.plan_all(driver.step_plan("a"), driver.step_plan("b", after=["a"]))
    assert isinstance(answer, Planned)
    assert answer.keys == (ledger.step("run-1", "a").key, ledger.step("run-1", "b").key)
    assert ledger.types("run-1").count("step.planned") == 2
    assert said(driver.plan_all(driver.step_plan("a"), driver.step_plan("b", after=["a"]))) == "ok"
    assert ledger.types("run-1").count("step.planned") == 2


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("tool", {"tool": "send"}),
        ("tool_version", {"version": "2"}),
        ("effect_class", {"effect": READ_ONLY}),
        ("arguments", {"arguments": b'{"amount":999}'}),
        ("key", {"key": "another"}),
        ("after", {"after": ["first"]}),
        ("supersedes", {"supersedes": "old"}),
    ],
)
def test_a_planned_step_never_changes(
    ledger: LedgerInProcess, field: str, change: dict[str, object]
) -> None:
    driver = driven(ledger)
    driver.plan("first")
    driver.plan("s", key="k", arguments=b'{"amount":100}', effect=NON_IDEMPOTENT)
    before = ledger.types()
    plan = {"key": "k", "arguments": b'{"amount":100}', **change}
    refused = refusal(driver.plan("s", **plan))  # type: ignore[arg-type]
    assert refused.reason.name == "PLAN_MISMATCH"
    assert refused.details["field"] == field
    assert (refused.details["planned_tool"], refused.may_succeed_later) == ("refund@1", False)
    assert ledger.types() == before


def test_a_started_or_settled_step_is_planned_again_without_an_event(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("s")
    before = ledger.types()
    assert said(driver.plan("s")) == "ok"
    driver.complete("s")
    assert said(driver.plan("s")) == "ok"
    assert ledger.types() == [*before, "step.completed"]


def test_only_a_planned_step_is_withdrawn(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    assert said(driver.withdraw("s")) == "STEP_NOT_PLANNED"
    driver.plan("s")
    assert said(driver.withdraw("s")) == "ok"
    assert said(driver.withdraw("s")) == "ok"
    assert ledger.types("run-1").count("step.withdrawn") == 1
    driver.started("t")
    assert said(driver.withdraw("t")) == "WRONG_STATE"
    assert said(driver.plan("s")) == "STEP_WITHDRAWN"


def test_keys_of_others_and_states_are_not_looked_at_when_planning(
    ledger: LedgerInProcess,
) -> None:
    one, two = driven(ledger, "run-1"), driven(ledger, "run-2")
    one.started("s", key="k", arguments=b"1")
    assert said(two.plan("t", key="k", arguments=b"2", supersedes="never")) == "ok"


# Tools


def test_the_first_plan_declares_the_tool_directly_before_its_step(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger, by=RUNTIME_2)
    driver.plan_all(
        driver.step_plan("a", tool="send"),
        driver.step_plan("b", tool="put", effect=IDEMPOTENT),
        driver.step_plan("c", tool="send"),
    )
    shown = ledger.entries()[-5:]
    assert [entry.type for entry in shown] == [
        "tool.declared",
        "step.planned",
        "tool.declared",
        "step.planned",
        "step.planned",
    ]
    assert [entry.run_id for entry in shown] == ["_log", "run-1", "_log", "run-1", "run-1"]
    actor = shown[0].event["actor"]
    assert isinstance(actor, dict)
    assert actor["id"] == "runtime-2"
    assert _body(shown[0]) == {"class": "NON_IDEMPOTENT_WRITE", "tool": "send", "version": "1"}
    driver.plan("d", tool="send")
    assert ledger.types().count("tool.declared") == 2


def test_an_unset_class_takes_the_bound_one(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.plan("a", tool="look-up", effect=READ_ONLY)
    driver.plan("b", tool="look-up")
    assert ledger.step("run-1", "b").effect is READ_ONLY
    assert ledger.step("run-1", "b").key == ""


@pytest.mark.parametrize(("bound", "given"), list(combinations(CLASSES, 2)))
def test_another_class_for_a_bound_version_is_refused_both_ways(
    ledger: LedgerInProcess, bound: EffectClass, given: EffectClass
) -> None:
    driver = driven(ledger)
    driver.plan("a", tool="up", effect=bound)
    driver.plan("b", tool="down", effect=given)
    refused = refusal(driver.plan("c", tool="up", effect=given))
    assert (refused.reason.name, refused.details["bound"]) == ("CLASS_MISMATCH", bound.value)
    assert said(driver.plan("d", tool="down", effect=bound)) == "CLASS_MISMATCH"


@pytest.mark.parametrize("weaker", [READ_ONLY, PROPOSE, IDEMPOTENT])
def test_a_version_weaker_than_the_strongest_write_needs_an_admin(
    ledger: LedgerInProcess, weaker: EffectClass
) -> None:
    driver = driven(ledger)
    driver.plan("a", effect=NON_IDEMPOTENT, version="1")
    refused = refusal(driver.plan("b", effect=weaker, version="2"))
    assert (refused.reason.name, refused.may_succeed_later) == ("CLASS_DOWNGRADE", True)
    assert said(ledger.ask(_allow("3", weaker), by=ADMIN)) == "ok"
    assert said(driver.plan("b", effect=weaker, version="2")) == "CLASS_DOWNGRADE"
    assert said(ledger.ask(_allow("2", weaker), by=ADMIN)) == "ok"
    assert said(driver.plan("b", effect=weaker, version="2")) == "ok"
    allowed = [entry for entry in ledger.entries("_log") if entry.type == "tool.downgrade_allowed"]
    assert len(allowed) == 2


def test_a_permission_reaches_no_weaker_class_than_it_names(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.plan("a", effect=NON_IDEMPOTENT, version="1")
    ledger.ask(_allow("2", IDEMPOTENT), by=ADMIN)
    assert said(driver.plan("b", effect=READ_ONLY, version="2")) == "CLASS_DOWNGRADE"
    assert said(driver.plan("b", effect=IDEMPOTENT, version="2")) == "ok"


def test_a_tool_that_never_wrote_may_take_any_class_in_a_new_version(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.plan("a", effect=PROPOSE, version="1")
    assert said(driver.plan("b", effect=READ_ONLY, version="2")) == "ok"
    assert said(driver.plan("c", effect=IDEMPOTENT, version="3")) == "ok"
    assert said(driver.plan("d", effect=NON_IDEMPOTENT, version="4")) == "ok"
    assert said(driver.plan("e", effect=IDEMPOTENT, version="5")) == "CLASS_DOWNGRADE"


def test_a_weaker_class_is_not_smuggled_in_with_the_plan_that_binds_the_stronger(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    answer = driver.plan_all(
        driver.step_plan("a", effect=NON_IDEMPOTENT, version="1"),
        driver.step_plan("b", effect=READ_ONLY, version="2"),
    )
    assert said(answer) == "CLASS_DOWNGRADE"
    assert said(driver.plan("b", effect=READ_ONLY, version="2")) == "ok"


def test_two_replicas_that_plan_a_tool_first_declare_it_once(ledger: LedgerInProcess) -> None:
    ledger.replica()
    drivers = [driven(ledger, f"run-{at}") for at in range(6)]
    for driver in drivers:
        driver.ended("warm", tool="other")
    answers = ledger.submit_at_once(
        *(
            (
                at % 2,
                [
                    ledger.request(
                        PlanSteps(
                            driver.run,
                            driver.token,
                            driver.process,
                            (driver.step_plan("s", effect=CLASSES[2 + at % 2]),),
                        )
                    )
                ],
            )
            for at, driver in enumerate(drivers)
        )
    )
    words = [said(outcome.answer) for (outcome,) in answers]  # type: ignore[union-attr]
    assert sorted(words) == ["CLASS_MISMATCH"] * 3 + ["ok"] * 3
    assert ledger.types().count("tool.declared") == 2


@pytest.mark.parametrize("ceiling", CLASSES)
def test_a_step_above_the_ceiling_of_its_run_is_refused(
    ledger: LedgerInProcess, ceiling: EffectClass
) -> None:
    ledger.ask(OpenRun(RunId("run-1"), ceiling=ceiling))
    driver = Driver(ledger, RunId("run-1"))
    driver.acquire()
    for effect in CLASSES:
        answer = driver.plan(f"s-{effect.rank}", tool=f"tool-{effect.rank}", effect=effect)
        assert said(answer) == ("ok" if effect.rank <= ceiling.rank else "ABOVE_CEILING")
