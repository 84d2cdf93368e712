"""Rules, section 2, and contract, section 6: leases, nonces, expiry and renewals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ledger.core.answers import Answered, LeaseGranted
from ledger.core.commands import AcquireLease, BreakLease, PlanSteps, ReleaseLease, RenewLease
from ledger.core.ids import HolderName, ProcessNonce
from ledger.core.times import parse_time
from ledger.core.vocabulary import Outcome, RunStatus
from tests.support.driving import READ_ONLY, Driver, another, driven, opened, refusal, said
from tests.support.in_process import ADMIN, P1, P2, LedgerInProcess


def _acquire(driver: Driver, process: ProcessNonce) -> AcquireLease:
    return AcquireLease(driver.run, HolderName("host-1"), process)


@pytest.mark.parametrize(
    "drive",
    [
        lambda d: d.plan("new"),
        lambda d: d.start("planned"),
        lambda d: d.withdraw("planned"),
        lambda d: d.renew(),
        lambda d: d.close(RunStatus.FAILED),
    ],
)
def test_another_process_never_drives_under_the_token_of_the_lease(
    ledger: LedgerInProcess, drive: Callable[[Driver], LeaseGranted]
) -> None:
    driver = driven(ledger)
    driver.plan("planned")
    before = ledger.types()
    forked = another(driver, P2)
    forked.token = driver.token
    assert said(drive(forked)) == "LEASE_OF_ANOTHER_PROCESS"
    assert ledger.types() == before


def test_each_lease_has_a_token_one_higher_than_any_before(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    tokens = [driver.token]
    for end in (
        driver.release,
        lambda: ledger.ask(BreakLease(driver.run, "stuck"), by=ADMIN),
        lambda: ledger.clock.advance(31),
    ):
        end()
        driver.acquire()
        tokens.append(driver.token)
    assert tokens == [1, 2, 3, 4]


def test_a_second_driver_is_told_who_holds_the_run_and_until_when(ledger: LedgerInProcess) -> None:
    driver = opened(ledger, "run-1")
    granted = driver.acquire()
    assert isinstance(granted, LeaseGranted)
    refused = refusal(another(driver, P2).acquire())
    assert refused.reason.name == "LEASE_HELD"
    assert refused.may_succeed_later
    assert refused.details["holder"] == "host-1"
    assert parse_time(refused.details["until"], path="until") == granted.expires_us


def test_an_acquire_by_the_nonce_that_holds_the_live_lease_answers_that_lease(
    ledger: LedgerInProcess,
) -> None:
    driver = opened(ledger, "run-1")
    first = driver.acquire()
    second = driver.acquire()
    assert isinstance(first, LeaseGranted)
    assert isinstance(second, LeaseGranted)
    assert (second.token, second.expires_us) == (first.token, first.expires_us)
    assert ledger.types("run-1") == ["run.opened", "lease.acquired"]


@pytest.mark.parametrize("later_s", [0, 29, 31, 100_000])
def test_a_repeated_acquire_is_answered_from_its_entry_while_its_token_is_newest(
    ledger: LedgerInProcess, later_s: int
) -> None:
    driver = opened(ledger, "run-1")
    request = ledger.request(_acquire(driver, P1))
    first = ledger.send(request)
    ledger.clock.advance(later_s)
    again = ledger.send(request)
    assert first.append is not None
    assert again.append is not None
    assert (again.append.index, again.append.leaf) == (first.append.index, first.append.leaf)
    assert isinstance(first.answer, LeaseGranted)
    assert isinstance(again.answer, LeaseGranted)
    assert (again.answer.token, again.answer.expires_us) == (1, first.answer.expires_us)
    assert ledger.types("run-1").count("lease.acquired") == 1


def test_a_repeated_acquire_of_another_nonce_is_answered_by_the_present_state(
    ledger: LedgerInProcess,
) -> None:
    driver = opened(ledger, "run-1")
    request = ledger.request(_acquire(driver, P1))
    ledger.send(request)
    forked = ledger.request(_acquire(driver, P2), under=request.id)
    assert said(ledger.send(forked).answer) == "LEASE_HELD"
    ledger.clock.advance(31)
    assert said(ledger.send(forked).answer) == "ACQUIRE_ALREADY_USED"
    assert ledger.types("run-1").count("lease.acquired") == 1


def test_a_repeated_acquire_is_told_of_the_newer_token_of_somebody_else(
    ledger: LedgerInProcess,
) -> None:
    driver = opened(ledger, "run-1")
    request = ledger.request(_acquire(driver, P1))
    ledger.send(request)
    ledger.clock.advance(31)
    assert said(another(driver, P2).acquire()) == "ok"
    answered = ledger.send(request)
    assert (said(answered.answer), answered.append) == ("LEASE_HELD", None)


def test_a_repeated_acquire_whose_process_holds_a_newer_lease_is_answered_that_one(
    ledger: LedgerInProcess,
) -> None:
    driver = opened(ledger, "run-1")
    request = ledger.request(_acquire(driver, P1))
    ledger.send(request)
    ledger.ask(ReleaseLease(driver.run, 1))
    assert said(driver.acquire()) == "ok"
    answered = ledger.send(request)
    assert isinstance(answered.answer, LeaseGranted)
    assert (answered.answer.token, answered.append) == (2, None)


@pytest.mark.parametrize(
    "meets",
    [
        lambda d: another(d, P2).acquire(),
        lambda d: d.start("planned"),
        lambda d: d.close(RunStatus.FAILED),
        lambda d: d.cancel(),
        lambda d: d.ledger.sweep(),
        lambda d: d.decide("unknown"),
    ],
)
def test_an_expiry_is_written_once_by_whatever_first_finds_it(
    ledger: LedgerInProcess, meets: Callable[[Driver], object]
) -> None:
    driver = driven(ledger)
    driver.plan("planned")
    driver.left_unknown("unknown")
    driver.started("started", operation_s=3600)
    ledger.clock.advance(30.1)
    for _ in range(2):
        meets(driver)
        assert ledger.types("run-1").count("lease.expired") == 1
    assert driver.state("started") == "STARTED"


def test_expiry_is_not_written_while_the_lease_lives(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    ledger.clock.advance(29)
    ledger.sweep()
    driver.plan("s")
    assert "lease.expired" not in ledger.types()


def test_a_renewal_extends_the_lease_and_writes_no_entry(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    for _ in range(5):
        ledger.clock.advance(29)
        assert said(driver.renew()) == "ok"
    assert said(driver.plan("s")) == "ok"
    assert ledger.types("run-1") == ["run.opened", "lease.acquired", "step.planned"]


def test_a_lease_that_a_renewal_shortened_is_swept_when_it_ends(ledger: LedgerInProcess) -> None:
    driver = driven(ledger, ttl_s=60)
    assert said(driver.renew(ttl_s=5)) == "ok"
    ledger.clock.advance(5.1)
    ledger.sweep()
    assert ledger.types()[-1] == "lease.expired"


def test_a_renewal_is_refused_once_the_lease_has_ended(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    ledger.clock.advance(30.1)
    assert said(driver.renew()) == "LEASE_EXPIRED"
    assert said(driver.acquire()) == "ok"
    driver.release()
    assert said(driver.renew()) == "LEASE_EXPIRED"


def test_a_renewal_counts_on_every_replica(ledger: LedgerInProcess) -> None:
    ledger.replica()
    driver = driven(ledger)
    driver.plan("s")
    ledger.clock.advance(20)
    there = another(driver, P1)
    there.token, there.at = driver.token, 1
    assert said(there.renew()) == "ok"
    ledger.clock.advance(20)
    assert said(driver.start("s")) == "EXECUTE"
    other = another(driver, P2)
    other.at = 1
    assert said(other.acquire()) == "LEASE_HELD"


def test_a_renewal_that_races_the_expiry_never_leaves_two_drivers(ledger: LedgerInProcess) -> None:
    driver = driven(ledger, ttl_s=5)
    for _ in range(15):
        other = another(driver, P2 if driver.process == P1 else P1)
        ledger.clock.advance(4.999)
        renewed, acquired = ledger.until_done(_at_once(driver, other))
        assert not (isinstance(renewed, LeaseGranted) and isinstance(acquired, LeaseGranted))
        if isinstance(acquired, LeaseGranted):
            other.token, driver = acquired.token, other
        elif not isinstance(renewed, LeaseGranted):
            driver.acquire(ttl_s=5)


async def _at_once(driver: Driver, other: Driver) -> tuple[object, object]:
    """One renews while the other asks for the lease."""
    ledger, sequencer = driver.ledger, driver.ledger.replicas[0].sequencer
    command = AcquireLease(other.run, HolderName("host-2"), other.process, 5_000)
    acquiring = ledger.request(command, by=other.by)
    renewed, (acquired,) = await asyncio.gather(
        sequencer.renew(
            acquiring.caller, RenewLease(driver.run, driver.token, driver.process, 5_000)
        ),
        sequencer.submit([acquiring]),
    )
    assert isinstance(acquired, Answered)
    return renewed, acquired.answer


def test_a_report_counts_while_every_newer_token_went_to_the_same_process(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("s")
    ledger.clock.advance(31)
    driver.acquire()
    driver.release()
    driver.acquire()
    assert driver.token == 3
    assert said(driver.complete("s", token=1)) == "RECORDED"


def test_a_report_is_stale_when_one_newer_token_went_to_another_process(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("s")
    ledger.clock.advance(31)
    other = another(driver, P2)
    other.acquire()
    other.release()
    driver.acquire()
    assert said(driver.complete("s", token=1)) == "STALE_LEASE"


def test_releasing_an_expired_lease_is_answered_and_writes_nothing(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    ledger.clock.advance(31)
    before = ledger.types()
    assert said(driver.release()) == "ok"
    assert ledger.types() == before


@pytest.mark.parametrize("ends", ["release", "break"])
def test_release_and_break_abandon_what_was_started_at_once(
    ledger: LedgerInProcess, ends: str
) -> None:
    driver = driven(ledger)
    driver.started("write", operation_s=3600)
    driver.started("read", operation_s=3600, effect=READ_ONLY, tool="look-up")
    if ends == "release":
        driver.release()
    else:
        ledger.ask(BreakLease(driver.run, "stuck"), by=ADMIN)
    assert (driver.state("write"), driver.state("read")) == ("UNKNOWN", "FAILED")
    unknown, completed = ledger.entries("run-1")[-2:]
    bodies = [entry.event["body"] for entry in (unknown, completed)]
    assert [body["cause"] for body in bodies if isinstance(body, dict)] == [
        "lease_released" if ends == "release" else "lease_broken",
        "holder_lost",
    ]


def test_release_leaves_the_attempt_of_an_earlier_holder_to_its_deadline(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("theirs", operation_s=100)
    ledger.clock.advance(31)
    other = another(driver, P2)
    other.acquire()
    other.started("own", operation_s=3600)
    assert said(other.unknown("theirs")) == "ATTEMPT_MAY_RUN"
    other.release()
    assert (driver.state("theirs"), driver.state("own")) == ("STARTED", "UNKNOWN")
    ledger.clock.advance(70)
    ledger.sweep()
    assert driver.state("theirs") == "UNKNOWN"
    assert ledger.types("run-1").count("step.unknown") == 2


def test_release_after_an_earlier_attempts_deadline_settles_that_one_too(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("theirs", operation_s=60)
    ledger.clock.advance(31)
    other = another(driver, P2)
    other.acquire(ttl_s=600)
    ledger.clock.advance(30)
    other.release()
    last = ledger.entries("run-1")[-1].event["body"]
    assert isinstance(last, dict)
    assert (driver.state("theirs"), last["cause"]) == ("UNKNOWN", "holder_dead")


def test_a_break_abandons_the_attempt_of_an_earlier_holder_too(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.started("theirs", operation_s=3600)
    ledger.clock.advance(31)
    another(driver, P2).acquire()
    ledger.ask(BreakLease(driver.run, "stuck"), by=ADMIN)
    assert driver.state("theirs") == "UNKNOWN"


def test_the_last_holder_of_a_cancelled_run_lets_the_ledger_close_it(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.plan("planned")
    driver.started("s")
    assert said(driver.cancel()) == "ok"
    assert said(driver.start("planned")) == "CANCELLED"
    assert said(driver.complete("s", Outcome.SUCCEEDED)) == "RECORDED"
    assert ledger.run("run-1").status is None
    driver.release()
    assert ledger.run("run-1").status is RunStatus.CANCELLED
    assert driver.state("planned") == "WITHDRAWN"
    assert said(driver.cancel()) == "RUN_CLOSED"


def test_a_cancelled_run_with_an_expired_lease_is_closed_after_its_expiry_is_written(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("s", operation_s=3600)
    driver.cancel()
    ledger.clock.advance(31)
    assert said(driver.complete("s")) == "RECORDED"
    assert ledger.types("run-1")[-3:] == ["step.completed", "lease.expired", "run.closed"]


def test_cancelling_is_told_with_every_later_answer_to_the_holder(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.started("s")
    plan = PlanSteps(driver.run, driver.token, driver.process, (driver.step_plan("a"),))
    planning = ledger.request(plan)
    ledger.send(planning)
    driver.cancel()
    answers = [
        driver.plan("b"),
        driver.start("b"),
        driver.renew(),
        driver.acquire(),
        driver.withdraw("b"),
        driver.unknown("s"),
        ledger.send(planning).answer,
    ]
    assert [getattr(answer, "cancel_requested", None) for answer in answers] == [True] * 7


def test_the_sweep_finds_an_attempt_that_outlived_its_deadline_under_a_renewed_lease(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("s", operation_s=40)
    for _ in range(2):
        ledger.clock.advance(22)
        driver.renew()
        ledger.sweep()
    assert driver.state("s") == "STARTED"
    ledger.clock.advance(7)
    ledger.sweep()
    assert driver.state("s") == "UNKNOWN"
    assert "lease.expired" not in ledger.types()


def test_what_one_dead_holder_leaves_behind_stands_under_one_request_id(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("pay", arguments=b"1")
    driver.started("send", arguments=b"2")
    ledger.clock.advance(120)
    another(driver, P2).acquire()
    made = [entry for entry in ledger.entries() if entry.event["actor"]["id"] == "_ledger"]  # type: ignore[index, call-overload]
    assert [entry.type for entry in made] == ["lease.expired", "step.unknown", "step.unknown"]
    requests = [entry.event["request"] for entry in made]
    assert [request["part"] for request in requests] == [0, 1, 2]  # type: ignore[index, call-overload]
    assert len({request["id"] for request in requests}) == 1  # type: ignore[index, call-overload]
