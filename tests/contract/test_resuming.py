"""Contract, section 8: what a new process is given, so that it goes on without asking a model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger.core.answers import Answered, LeaseGranted
from ledger.core.commands import OpenRun
from ledger.core.ids import HolderName, RunId, StepId
from ledger.core.refusals import Refused
from ledger.core.times import format_time
from ledger.core.vocabulary import Outcome, RunStatus, Verdict
from ledger.paging import Page
from ledger.views import Availability, ResumePage, StepsPage
from tests.support.driving import IDEMPOTENT, READ_ONLY, Driver, another, driven, refusal, said
from tests.support.in_process import P1, P2, LedgerInProcess
from tests.support.resuming import reader, resume, resumed


def test_a_new_process_is_given_plan_results_and_what_is_ready(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.started("done", arguments=b'{"exact":  "bytes"}')
    driver.complete("done", result=b"rc-1")
    driver.plan("ready", after=["done"])
    driver.plan("waits", after=["ready"])
    driver.left_unknown("unknown", tool="send")
    driver.left_unknown("again", tool="put", effect=IDEMPOTENT)
    driver.started("lost", tool="look-up", effect=READ_ONLY)
    ledger.clock.advance(31)
    other = another(driver, P2)
    assert said(other.acquire()) == "ok"
    page = resumed(other)
    shown = {each.step.id: each for each in page.steps}
    assert shown["done"].arguments.content == b'{"exact":  "bytes"}'
    assert shown["done"].result.content == b"rc-1"
    assert shown["ready"].result.availability is Availability.NONE
    assert {step for step, each in shown.items() if each.ready} == {"ready", "again", "lost"}
    assert shown["waits"].waiting_for == "ready"
    assert [str(each.step.state) for each in page.steps] == [
        "SUCCEEDED",
        "PLANNED",
        "PLANNED",
        "UNKNOWN",
        "UNKNOWN",
        "FAILED",
    ]


def test_what_is_ready_starts_and_what_is_not_does_not(ledger: LedgerInProcess) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.ended("done")
    driver.ended("failed", Outcome.FAILED, tool="send")
    driver.ended("refused", Outcome.NO_EFFECT, tool="put")
    driver.abandoned("abandoned", tool="pay", key="k1")
    driver.plan("replacement", tool="pay", key="k2", supersedes="k1", after=["done"])
    driver.plan("after-failed", tool="a", after=["failed"])
    driver.plan("after-refused", tool="b", after=["refused"])
    driver.plan("after-abandoned", tool="c", after=["abandoned"])
    driver.left_unknown("unknown", tool="d")
    ready = {each.step.id for each in resumed(driver).steps if each.ready}
    assert ready == {"refused", "replacement"}
    for each in resumed(driver).steps:
        assert (said(driver.start(each.step.id)) == "EXECUTE") == (each.step.id in ready)


def test_resuming_twice_changes_nothing(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.plan("s")
    before = ledger.types()
    first = resumed(driver)
    assert resumed(driver).steps == first.steps
    assert ledger.types() == before


def test_two_hosts_that_resume_at_once_leave_one_driver(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.plan("s")
    forked = another(driver, P2)
    assert said(forked.acquire()) == "LEASE_HELD"
    forked.token = driver.token
    refused = resume(forked)
    assert isinstance(refused, Refused)
    assert refused.reason.name == "LEASE_OF_ANOTHER_PROCESS"
    ledger.clock.advance(31)
    assert said(forked.acquire()) == "ok"
    stale = resume(driver)
    assert isinstance(stale, Refused)
    assert stale.reason.name == "STALE_LEASE"
    assert isinstance(resume(forked), ResumePage)


def test_the_resume_state_is_for_the_live_holder_only(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    ledger.clock.advance(31)
    expired = resume(driver)
    assert isinstance(expired, Refused)
    assert expired.reason.name == "LEASE_EXPIRED"
    driver.acquire()
    driver.close()
    closed = resume(driver)
    assert isinstance(closed, Refused)
    assert closed.reason.name == "RUN_CLOSED"


def test_the_cancel_flag_is_told_and_nothing_is_ready_then(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.plan("s")
    assert [each.ready for each in resumed(driver).steps] == [True]
    driver.cancel()
    page = resumed(driver)
    assert page.view.run.cancel_requested
    assert [each.ready for each in page.steps] == [False]


def test_pages_of_the_resume_state_hold_every_step_once(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    names = [f"s{at}" for at in range(7)]
    driver.plan_all(*(driver.step_plan(name) for name in names))
    found: list[str] = []
    after = None
    while True:
        page = resume(driver, size=3, after=after)
        assert isinstance(page, ResumePage)
        found += [each.step.id for each in page.steps]
        if not page.next_token:
            break
        after = page.steps[-1].step.ordinal
    assert found == names


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_decision_made_while_nobody_drove_is_seen_on_resuming(
    ledger: LedgerInProcess, verdict: Verdict
) -> None:
    driver = driven(ledger)
    driver.started("s", operation_s=1)
    ledger.clock.advance(31)
    ledger.sweep()
    assert said(driver.decide("s", verdict, result=b"found")) == "ok"
    driver.acquire()
    (shown,) = resumed(driver).steps
    executed = verdict is Verdict.EXECUTED
    assert shown.step.state.value == (
        "RECONCILED_EXECUTED" if executed else "RECONCILED_NOT_EXECUTED"
    )
    assert shown.result.content == (b"found" if executed else b"")
    assert ledger.run("run-1").status is not RunStatus.COMPLETED


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_hosts_that_acquire_at_once_one_wins_and_the_other_is_told_who_and_until_when(
    ledger: LedgerInProcess, first: int
) -> None:
    driver = driven(ledger)
    driver.plan("s")
    ledger.clock.advance(31)
    ledger.replica()
    hosts = [another(driver, P1), another(driver, P2)]
    asked = [
        ledger.request(replace(host.acquire_command(), holder=HolderName(f"host-{at}")))
        for at, host in enumerate(hosts)
    ]
    answered = ledger.submit_at_once(*((at ^ first, [asked[at]]) for at in (first, 1 - first)))
    answers = [one.answer for (one,) in answered if isinstance(one, Answered)]
    (won,) = [each for each in answers if isinstance(each, LeaseGranted)]
    (lost,) = [each for each in answers if isinstance(each, Refused)]
    assert lost.reason.name == "LEASE_HELD"
    assert lost.details == {"holder": won.holder, "until": format_time(won.expires_us)}
    assert won.token == driver.token + 1
    assert ledger.types("run-1").count("lease.acquired") == 2
    winner, loser = hosts if won.holder == "host-0" else reversed(hosts)
    winner.token = loser.token = won.token
    before = ledger.types()
    assert isinstance(resume(winner), ResumePage)
    refused = resume(loser)
    assert isinstance(refused, Refused)
    assert refused.reason.name == "LEASE_OF_ANOTHER_PROCESS"
    assert said(loser.start("s")) == "LEASE_OF_ANOTHER_PROCESS"
    assert ledger.types() == before
    assert said(winner.start("s")) == "EXECUTE"


def test_what_waits_is_told_alike_by_a_start_and_on_resuming(ledger: LedgerInProcess) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.ended("succeeded")
    driver.ended("failed", Outcome.FAILED, tool="send")
    driver.ended("no-effect", Outcome.NO_EFFECT, tool="put")
    driver.ended("look", Outcome.FAILED, tool="look", effect=READ_ONLY)
    driver.left_unknown("executed", tool="e")
    driver.decide("executed")
    driver.abandoned("abandoned", tool="pay", key="k1")
    driver.abandoned("replaced", tool="ship", key="k2")
    driver.ended("replacing", tool="ship", key="k3", supersedes="k2")
    driver.abandoned("replaced-in-vain", tool="call", key="k4")
    driver.ended("failing", Outcome.FAILED, tool="call", key="k5", supersedes="k4")
    driver.plan("planned", tool="p")
    driver.plan("withdrawn", tool="w")
    driver.withdraw("withdrawn")
    driver.left_unknown("unknown", tool="u")
    driver.started("started", tool="g", operation_s=3600)
    predecessors = [step.step.id for step in resumed(driver).steps]
    for predecessor in predecessors:
        driver.plan(f"after-{predecessor}", tool=f"t-{predecessor}", after=[predecessor])
    told = {each.step.id: each for each in resumed(driver).steps}
    ready = {name for name in predecessors if told[StepId(f"after-{name}")].ready}
    assert ready == {"succeeded", "executed", "replaced", "replacing"}
    ended = {"failed", "failing", "replaced-in-vain", "withdrawn"}
    for name in predecessors:
        shown = told[StepId(f"after-{name}")]
        answer = driver.start(f"after-{name}")
        assert (said(answer) == "EXECUTE") == shown.ready
        if not shown.ready:
            assert refusal(answer).step == shown.waiting_for == name
            expected = "PREDECESSOR_ENDED" if name in ended else "WAITING"
            assert said(answer) == expected, name


def test_a_step_of_a_tool_version_that_the_new_process_does_not_have_is_planned_anew(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.plan("s", version="1", arguments=b"{}", key="k")
    ledger.clock.advance(31)
    newer = another(driver, P2)
    newer.acquire()
    (shown,) = resumed(newer).steps
    assert (shown.step.tool_version, shown.ready) == ("1", True)
    mismatch = refusal(newer.start("s", version="2"))
    assert mismatch.reason.name == "TOOL_VERSION_MISMATCH"
    assert mismatch.details == {"planned": "1", "given": "2"}
    assert said(newer.plan("s", version="2", arguments=b"{}", key="k")) == "PLAN_MISMATCH"
    assert said(newer.withdraw("s")) == "ok"
    assert said(newer.plan("s2", version="2", arguments=b"{}", key="k")) == "ok"
    assert said(newer.start("s2", version="2")) == "EXECUTE"


def test_parent_and_labels_come_back_wherever_a_run_is_read(ledger: LedgerInProcess) -> None:
    labels = (("shop", "north"), ("team", "billing"))
    command = OpenRun(RunId("child"), parent=RunId("parent"), labels=labels)
    assert said(ledger.ask(command)) == "ok"
    driver = Driver(ledger, RunId("child"))
    driver.acquire()
    read = reader(ledger)
    found = read.run(ledger.log, "child", Page(10, None))
    assert isinstance(found, StepsPage)
    listed = read.runs(ledger.log, Page(10, None), open_only=True)
    for run in (found.view.run, listed.runs[0].run, resumed(driver).view.run):
        assert (run.run_id, run.parent, run.labels) == ("child", "parent", labels)
