"""Contract, section 8: what a new process is given, so that it goes on without asking a model."""

from __future__ import annotations

import pytest

from ledger.core.refusals import Refused
from ledger.core.vocabulary import Outcome, RunStatus, Verdict
from ledger.paging import Page
from ledger.reading import RunReader
from ledger.vault import Vault
from ledger.views import Availability, ResumePage
from projections.idempotency import IdempotencyRows
from projections.views import Views
from tests.support.driving import IDEMPOTENT, READ_ONLY, Driver, another, driven, said
from tests.support.in_process import P2, LedgerInProcess


def _resume(driver: Driver, *, size: int = 100, after: int | None = None) -> ResumePage | Refused:
    ledger = driver.ledger
    time = ledger.replicas[0].sequencer.time(ledger.tenant)

    def now_us(_: object, head: object) -> int:
        with ledger.store.change() as changing:
            return time.now_us(head_us=head.time_us, clock_us=changing.clock_us())  # type: ignore[attr-defined]

    reader = RunReader(
        store=ledger.store,
        rows=Views(),
        claims=IdempotencyRows(),
        vault=Vault(ledger.house.keyring),
        now_us=now_us,
    )
    page = Page(size, None if after is None else (after,))
    return reader.resume(
        ledger.log,
        driver.run,
        page,
        token=driver.token,
        process=driver.process,
        bytes_max=1 << 20,
    )


def _page(driver: Driver) -> ResumePage:
    page = _resume(driver)
    assert isinstance(page, ResumePage), page
    return page


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
    resumed = another(driver, P2)
    assert said(resumed.acquire()) == "ok"
    page = _page(resumed)
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
    ready = {each.step.id for each in _page(driver).steps if each.ready}
    assert ready == {"refused", "replacement"}
    for each in _page(driver).steps:
        assert (said(driver.start(each.step.id)) == "EXECUTE") == (each.step.id in ready)


def test_resuming_twice_changes_nothing(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.plan("s")
    before = ledger.types()
    first = _page(driver)
    assert _page(driver).steps == first.steps
    assert ledger.types() == before


def test_two_hosts_that_resume_at_once_leave_one_driver(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.plan("s")
    forked = another(driver, P2)
    assert said(forked.acquire()) == "LEASE_HELD"
    forked.token = driver.token
    refused = _resume(forked)
    assert isinstance(refused, Refused)
    assert refused.reason.name == "LEASE_OF_ANOTHER_PROCESS"
    ledger.clock.advance(31)
    assert said(forked.acquire()) == "ok"
    stale = _resume(driver)
    assert isinstance(stale, Refused)
    assert stale.reason.name == "STALE_LEASE"
    assert isinstance(_resume(forked), ResumePage)


def test_the_resume_state_is_for_the_live_holder_only(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    ledger.clock.advance(31)
    expired = _resume(driver)
    assert isinstance(expired, Refused)
    assert expired.reason.name == "LEASE_EXPIRED"
    driver.acquire()
    driver.close()
    closed = _resume(driver)
    assert isinstance(closed, Refused)
    assert closed.reason.name == "RUN_CLOSED"


def test_the_cancel_flag_is_told_and_nothing_is_ready_then(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.plan("s")
    assert [each.ready for each in _page(driver).steps] == [True]
    driver.cancel()
    page = _page(driver)
    assert page.view.run.cancel_requested
    assert [each.ready for each in page.steps] == [False]


def test_pages_of_the_resume_state_hold_every_step_once(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    names = [f"s{at}" for at in range(7)]
    driver.plan_all(*(driver.step_plan(name) for name in names))
    found: list[str] = []
    after = None
    while True:
        page = _resume(driver, size=3, after=after)
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
    (shown,) = _page(driver).steps
    executed = verdict is Verdict.EXECUTED
    assert shown.step.state.value == (
        "RECONCILED_EXECUTED" if executed else "RECONCILED_NOT_EXECUTED"
    )
    assert shown.result.content == (b"found" if executed else b"")
    assert ledger.run("run-1").status is not RunStatus.COMPLETED
