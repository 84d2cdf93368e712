"""Faults reported in public for systems of this kind, as far as one process shows them.

Each test names the case it answers to; the case's own words are in the project's design folder.
"""

from __future__ import annotations

import pytest

from ledger.core.answers import Answered, CancelRequested, Completed, OutcomeUnknown
from ledger.core.commands import (
    AcquireLease,
    CloseRun,
    CompleteStep,
    OpenRun,
    PlanSteps,
    Reconcile,
    ReleaseLease,
    Request,
    RequestCancel,
)
from ledger.core.ids import HolderName, RunId, StepId, Tenant
from ledger.core.vocabulary import ActorKind, Outcome, Role, RunStatus, Verdict
from ledger.limits import Limits
from ledger.sequencer import Outcome as Sent
from ledger.service.asking import Asking
from ledger.service.decode_runs import open_run
from ledger.service.request_content import content_digest
from ledger.v1 import run_service_pb2 as pb
from tests.support.driving import Driver, another, driven, refusal, said
from tests.support.in_process import P2, REVIEWER_2, RUNTIME_2, LedgerInProcess, caller

SUCCEEDED = Outcome.SUCCEEDED


def _word(outcome: Sent) -> str:
    assert isinstance(outcome, Answered), outcome
    return said(outcome.answer)


def test_a_step_whose_worker_died_lists_itself_and_is_never_handed_out(
    ledger: LedgerInProcess,
) -> None:
    """UNK-01."""
    driver = driven(ledger)
    driver.started("s1", tool="send_invoice", arguments=b'{"order":7}')
    ledger.clock.advance(61)
    ledger.sweep()
    assert ledger.unknowns() == ["run-1/s1"]
    resumed = another(driver, P2)
    resumed.acquire()
    answer = resumed.start("s1")
    assert isinstance(answer, OutcomeUnknown)
    assert answer.unknown.step == "s1"
    resumed.plan("s1-again", tool="send_invoice", arguments=b'{"order":7}')
    again = resumed.start("s1-again")
    assert isinstance(again, OutcomeUnknown)
    assert again.unknown.step == "s1"
    assert ledger.types("run-1").count("step.started") == 1


def test_the_report_of_a_worker_that_came_back_too_late_is_kept(ledger: LedgerInProcess) -> None:
    """UNK-02."""
    driver = driven(ledger)
    driver.started("s1", operation_s=1)
    ledger.clock.advance(31)
    another(driver, P2).acquire()
    ledger.clock.advance(30)
    before = ledger.step("run-1", "s1").version
    answer = driver.complete("s1", result=b'{"receipt":"rc-77"}')
    assert isinstance(answer, Completed)
    assert (answer.disposition, answer.evidence_recorded) == ("STALE_LEASE", True)
    assert (driver.state("s1"), ledger.unknowns()) == ("UNKNOWN", ["run-1/s1"])
    assert said(driver.decide("s1", version=before)) == "VERSION_MISMATCH"


def test_the_strongest_account_may_not_confirm_its_own_work(ledger: LedgerInProcess) -> None:
    """WHO-01."""
    strongest = caller("P", ActorKind.HUMAN, *Role)
    driver = driven(ledger, by=strongest)
    driver.left_unknown("s1")
    assert said(driver.decide("s1", by=strongest)) == "SELF_RECONCILE"
    other = caller("P2", ActorKind.HUMAN, *Role)
    assert said(driver.decide("s1", by=other)) == "ok"


def test_an_agent_that_asks_anew_for_the_same_action_gets_no_second_go(
    ledger: LedgerInProcess,
) -> None:
    """IDM-07."""
    driver = driven(ledger)
    driver.started("a1", arguments=b'{"amount":100}')
    ledger.clock.advance(31)
    resumed = another(driver, P2)
    resumed.acquire(ttl_s=600)
    assert said(resumed.plan("a1", arguments=b'{"amount":100}')) == "ok"
    assert said(resumed.start("a1")) == "HELD"
    ledger.clock.advance(40)
    assert said(resumed.start("a1")) == "UNKNOWN"
    assert said(resumed.plan("a1", arguments=b'{"amount":999}')) == "PLAN_MISMATCH"
    assert ledger.types("run-1").count("step.started") == 1


def test_a_stalled_worker_that_wakes_up_changes_nothing_of_the_next_ones(
    ledger: LedgerInProcess,
) -> None:
    """LSE-01."""
    first = driven(ledger)
    first.started("s0", operation_s=1)
    first.plan("s1")
    ledger.clock.advance(31)
    second = another(first, P2, by=RUNTIME_2)
    second.acquire()
    second.start("s1")
    second.complete("s1", result=b"second")
    result = ledger.step("run-1", "s1").result_id
    assert said(first.renew()) == "STALE_LEASE"
    assert said(first.start("s1")) == "STALE_LEASE"
    assert said(first.release()) == "STALE_LEASE"
    assert said(first.complete("s0")) == "STALE_LEASE"
    assert ledger.types("run-1")[-1] == "evidence.attached"
    assert said(first.complete("s1")) == "STALE_LEASE"
    settled = ledger.step("run-1", "s1")
    assert (settled.state.value, settled.result_id) == ("SUCCEEDED", result)
    assert said(second.renew()) == "ok"


def test_a_long_step_with_renewals_has_one_attempt(ledger: LedgerInProcess) -> None:
    """LSE-04, first half."""
    driver = driven(ledger, ttl_s=5)
    driver.started("s", operation_s=30)
    for _ in range(10):
        ledger.clock.advance(2)
        assert said(driver.renew(ttl_s=5)) == "ok"
        assert said(another(driver, P2).acquire()) == "LEASE_HELD"
        ledger.sweep()
    assert said(driver.complete("s")) == "RECORDED"
    assert len(ledger.step("run-1", "s").attempts) == 1


def test_a_long_step_without_renewals_is_not_started_again(ledger: LedgerInProcess) -> None:
    """LSE-04, second half."""
    driver = driven(ledger, ttl_s=5)
    driver.started("s", operation_s=10)
    ledger.clock.advance(6)
    second = another(driver, P2)
    assert said(second.acquire(ttl_s=60)) == "ok"
    assert said(second.start("s")) == "HELD"
    ledger.clock.advance(5)
    assert said(second.start("s")) == "UNKNOWN"
    assert len(ledger.step("run-1", "s").attempts) == 1


def test_code_that_changed_between_crash_and_resume_gets_no_other_steps_result(
    ledger: LedgerInProcess,
) -> None:
    """SCH-02."""
    driver = driven(ledger)
    driver.ended("step-3", tool="charge_card")
    before = ledger.types()
    refused = refusal(driver.plan("step-3", tool="send_mail", arguments=b"d9"))
    assert refused.reason.name == "PLAN_MISMATCH"
    assert refused.details["planned_tool"] == "charge_card@1"
    assert refused.details["given_tool"] == "send_mail@1"
    assert said(driver.start("step-3", version="2")) == "TOOL_VERSION_MISMATCH"
    assert ledger.types() == before


def test_a_runtime_that_resends_everything_after_a_resume_doubles_nothing(
    ledger: LedgerInProcess,
) -> None:
    """RES-01."""
    driver = driven(ledger)
    driver.started("s1")
    driver.complete("s1", result=b"rc")
    driver.plan("s2", after=["s1"])
    ledger.clock.advance(31)
    driver.acquire()
    before = ledger.types()
    assert said(driver.plan("s1")) == "ok"
    assert said(driver.start("s1")) == "REPLAY_SUCCEEDED"
    assert said(driver.complete("s1", token=1, result=b"rc")) == "ALREADY_RECORDED"
    assert ledger.types() == before
    assert said(driver.start("s2")) == "EXECUTE"


def test_labels_in_another_order_are_the_same_content(ledger: LedgerInProcess) -> None:
    """STR-06."""
    caller_of = ledger.request(OpenRun(RunId("run-1"))).caller
    asking = Asking(caller_of, Limits(), bytes(32))
    orders = ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    messages = [pb.OpenRunRequest(run="run-1", labels=labels) for labels in orders]
    commands = [open_run(message, asking) for message in messages]
    digests = {content_digest("OpenRun", message) for message in messages}
    assert [said(ledger.ask(command)) for command in commands] == ["ok", "ok"]
    assert (ledger.types(), len(digests)) == (["run.opened"], 1)


def test_the_other_tenants_run_does_not_exist(ledger: LedgerInProcess) -> None:
    """TEN-01, for commands."""
    driver = driven(ledger)
    elsewhere = LedgerInProcess(ledger.house, Tenant(f"{ledger.tenant}-b"))
    theirs = Driver(elsewhere, driver.run, token=1)
    for answer in (theirs.acquire(), theirs.plan("s"), theirs.cancel(), theirs.evidence()):
        assert said(answer) == "RUN_NOT_FOUND"
    elsewhere.close()


# TRM-01


def _race(ledger: LedgerInProcess, at: int) -> list[str]:
    driver = Driver(ledger, RunId(f"run-{at}"))
    opening = [
        ledger.request(OpenRun(driver.run)),
        ledger.request(AcquireLease(driver.run, HolderName("host-1"), driver.process)),
        ledger.request(PlanSteps(driver.run, 1, driver.process, (driver.step_plan("last"),))),
    ]
    driver.token = 1
    ledger.submit(*opening, ledger.request(driver.start_command("last")), at=at % 2)
    complete = CompleteStep(driver.run, StepId("last"), 1, 1, SUCCEEDED)
    close = CloseRun(driver.run, 1, driver.process, RunStatus.COMPLETED)
    works: list[Request] = [ledger.request(each) for each in (complete, close)]
    works.append(ledger.request(ReleaseLease(driver.run, 1)))
    stops = [ledger.request(RequestCancel(driver.run))]
    raced = ledger.submit_at_once((at % 2, works), ((at + 1) % 2, stops))
    words = [_word(outcome) for each in raced for outcome in each]
    ends = [entry for entry in ledger.types(driver.run) if entry == "run.closed"]
    assert len(ends) <= 1
    assert said(driver.start("last")) in ("RUN_CLOSED", "LEASE_EXPIRED")
    assert driver.state("last") == "SUCCEEDED"
    return words


def _races(ledger: LedgerInProcess, count: int) -> None:
    ledger.replica()
    winners = set()
    for at in range(count):
        words = _race(ledger, at)
        assert words[:2] == ["RECORDED", "ok"]
        assert words[2] == "RUN_CLOSED"
        assert words[3] in ("ok", "RUN_CLOSED")
        winners.add(words[3])
    assert winners <= {"ok", "RUN_CLOSED"}


def test_cancelling_and_completing_at_once_leave_one_end(ledger: LedgerInProcess) -> None:
    """TRM-01, ten times."""
    _races(ledger, 10)


@pytest.mark.long
def test_cancelling_and_completing_at_once_leave_one_end_a_hundred_times(
    ledger: LedgerInProcess,
) -> None:
    """TRM-01."""
    _races(ledger, 100)


def test_a_cancel_before_the_last_report_ends_the_run_as_cancelled(
    ledger: LedgerInProcess,
) -> None:
    """TRM-01, one order by hand."""
    driver = driven(ledger)
    driver.started("s")
    driver.cancel()
    ledger.clock.advance(61)
    ledger.sweep()
    assert ledger.run("run-1").status is RunStatus.CANCELLED
    late = driver.complete("s")
    assert isinstance(late, Completed)
    assert (late.disposition, late.evidence_recorded) == ("LATE", True)
    refused = refusal(driver.start("s"))
    assert (refused.reason.name, refused.details["status"]) == ("RUN_CLOSED", "CANCELLED")
    assert ledger.types("run-1").count("run.closed") == 1
    assert said(driver.decide("s", by=REVIEWER_2)) == "ok"


def test_a_cancel_after_the_end_changes_nothing(ledger: LedgerInProcess) -> None:
    """TRM-01, the other order by hand."""
    driver = driven(ledger)
    driver.ended("s")
    driver.close()
    refused = refusal(driver.cancel())
    assert (refused.reason.name, refused.details["status"]) == ("RUN_CLOSED", "COMPLETED")
    assert driver.state("s") == "SUCCEEDED"


def test_a_cancel_twice_is_recorded_once(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    for _ in range(2):
        answer = driver.cancel()
        assert isinstance(answer, CancelRequested)
        assert not answer.closed
    assert ledger.types("run-1").count("cancel.requested") == 1


# DBC-03, FRK-01 at this level


def test_writers_on_two_replicas_never_see_each_other_as_trouble(
    ledger: LedgerInProcess,
) -> None:
    """DBC-03 and FRK-01: many callers, two writers, one log; every answer stands in it."""
    ledger.replica()
    drivers = [driven(ledger, f"run-{at}") for at in range(8)]
    messages = []
    for turn in range(6):
        for at, driver in enumerate(drivers):
            plan = PlanSteps(
                driver.run, driver.token, driver.process, (driver.step_plan(f"s{turn}"),)
            )
            start = driver.start_command(f"s{turn}")
            messages.append(((at + turn) % 2, [ledger.request(plan), ledger.request(start)]))
    answers = ledger.submit_at_once(*messages)
    words = {_word(outcome) for each in answers for outcome in each}
    assert words == {"ok", "EXECUTE"}
    assert ledger.types().count("step.started") == 48
    places = [
        outcome.append.index
        for each in answers
        for outcome in each
        if isinstance(outcome, Answered) and outcome.append is not None
    ]
    assert len(set(places)) == len(places) == 96


def test_a_log_of_several_tiles_is_whole(ledger: LedgerInProcess) -> None:
    """CMP-01's ground: counts and tiles of a log that outgrew its first tile."""
    driver = driven(ledger)
    for at in range(4):
        driver.plan_all(*(driver.step_plan(f"s{at}-{each}") for each in range(150)))
    assert len(ledger.entries()) == 603


def test_a_bulk_decision_is_one_decision_a_step(ledger: LedgerInProcess) -> None:
    driver = driven(ledger, ttl_s=600)
    names = [f"s{at}" for at in range(6)]
    for name in names:
        driver.left_unknown(name)
    message = [
        ledger.request(
            Reconcile(
                driver.run,
                StepId(name),
                Verdict.EXECUTED,
                "outage",
                ledger.step("run-1", name).version,
            ),
            by=REVIEWER_2,
        )
        for name in names
    ]
    assert [_word(each) for each in ledger.submit(*message)] == ["ok"] * 6
    assert ledger.unknowns() == []
