"""Rules, section 2: ledger time under clocks that are behind, ahead, or of another replica."""

from __future__ import annotations

from itertools import pairwise

from ledger.ledger_time import ALARM_PAUSE_US, ClockAlarm, LedgerTime, rarely
from tests.support.driving import another, driven, opened, said
from tests.support.in_process import P2, S_US, Clock, LedgerInProcess


def _times(ledger: LedgerInProcess) -> list[int]:
    return [entry.recorded_at_us for entry in ledger.entries()]


def test_a_clock_that_fell_behind_neither_shortens_nor_lengthens_a_lease(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger, ttl_s=20)
    ledger.clock.database_us -= 3600 * S_US
    ledger.clock.advance(15)
    assert said(another(driver, P2).acquire()) == "LEASE_HELD"
    assert said(driver.plan("s")) == "ok"
    ledger.clock.advance(6)
    assert said(driver.start("s")) == "LEASE_EXPIRED"
    assert said(another(driver, P2).acquire()) == "ok"
    assert ledger.replicas[0].alarms


def test_a_clock_that_jumped_ahead_ends_no_lease(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    before = _times(ledger)[-1]
    ledger.clock.database_us += 3600 * S_US
    assert said(driver.plan("s")) == "ok"
    assert said(driver.renew()) == "ok"
    assert said(another(driver, P2).acquire()) == "LEASE_HELD"
    assert _times(ledger)[-1] - before < 60 * S_US
    assert ledger.replicas[0].alarms


def test_a_jump_ahead_is_taken_over_when_an_operator_accepts_it(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    ledger.clock.database_us += 3600 * S_US
    assert said(driver.plan("s")) == "ok"
    with ledger.store.change() as changing:
        jumped_us = changing.clock_us()
    ledger.replicas[0].sequencer.time(ledger.tenant).accept(jumped_us + 60 * S_US)
    assert said(driver.plan("t")) == "LEASE_EXPIRED"
    opened(ledger, "run-2")
    assert _times(ledger)[-1] >= jumped_us


def test_a_clock_up_to_ten_seconds_ahead_is_believed(ledger: LedgerInProcess) -> None:
    opened(ledger, "run-1")
    ledger.clock.database_us += 9 * S_US
    opened(ledger, "run-2")
    earlier, later = _times(ledger)
    assert later - earlier >= 9 * S_US
    assert not ledger.replicas[0].alarms


def test_a_replica_that_just_started_takes_the_clock_of_the_database(
    ledger: LedgerInProcess,
) -> None:
    opened(ledger, "run-1")
    ledger.clock.database_us += 3600 * S_US
    ledger.replica()
    driver = opened(ledger, "run-2")
    driver.at = 1
    assert said(driver.acquire()) == "ok"
    earlier, _, later = _times(ledger)
    assert later - earlier >= 3600 * S_US


def test_a_replica_that_just_started_behind_the_head_stays_at_the_head_and_goes_on(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    ledger.clock.database_us -= 3600 * S_US
    ledger.replica()
    there = another(driver, P2)
    there.at = 1
    assert said(there.acquire()) == "LEASE_HELD"
    ledger.clock.advance(31)
    assert said(there.acquire()) == "ok"


def test_time_never_stands_still_on_a_replica_that_is_behind_another(
    ledger: LedgerInProcess,
) -> None:
    slow = Clock()
    ledger.replica(clock=slow)
    driver = driven(ledger, ttl_s=20)
    there = another(driver, P2)
    there.at = 1
    assert said(there.acquire()) == "LEASE_HELD"
    ledger.clock.database_us += 8 * S_US
    driver.plan("s")
    ledger.clock.database_us -= 100 * S_US
    assert said(there.acquire()) == "LEASE_HELD"
    for _ in range(4):
        slow.advance(4)
        there.acquire()
    assert there.token == 2


def test_recorded_times_never_decrease_whatever_the_clock_does(ledger: LedgerInProcess) -> None:
    for at, jump_s in enumerate((0, -5, 9, -3600, 7, 7200, -7200, 11)):
        ledger.clock.database_us += jump_s * S_US
        opened(ledger, f"run-{at}")
    assert all(earlier <= later for earlier, later in pairwise(_times(ledger)))


def test_what_readers_are_shown_by_a_slow_host_sets_no_clock_back(ledger: LedgerInProcess) -> None:
    opened(ledger, "run-1")
    ledger.clock.database_us += 7200 * S_US
    ledger.replica()
    with ledger.store.change() as changing:
        head_us, clock_us = changing.head(ledger.log.number).time_us, changing.clock_us()
    host_us = clock_us - 3600 * S_US
    shown = ledger.replicas[1].sequencer.time(ledger.tenant).shown_us
    assert shown(head_us=head_us, host_us=host_us) == host_us
    driver = opened(ledger, "run-2")
    driver.at = 1
    assert said(driver.acquire()) == "ok"
    assert _times(ledger)[-1] >= clock_us
    assert not ledger.replicas[1].alarms
    assert shown(head_us=head_us, host_us=host_us) >= clock_us


def test_readers_are_shown_a_time_that_goes_on_while_nothing_is_appended() -> None:
    clock = Clock()
    time = LedgerTime(monotonic_us=clock.monotonic)
    time.now_us(head_us=0, clock_us=1_000)
    before = clock.monotonic()
    clock.advance(5)
    passed_us = clock.monotonic() - before
    assert passed_us >= 5 * S_US
    assert time.shown_us(head_us=0, host_us=0) >= 1_000 + passed_us
    assert time.shown_us(head_us=3600 * S_US, host_us=0) == 3600 * S_US


def test_a_clock_that_stays_off_is_told_at_once_and_then_once_a_minute() -> None:
    told: list[ClockAlarm] = []
    now_us = [0]
    alarm = rarely(told.append, monotonic_us=lambda: now_us[0])
    for second in range(120):
        now_us[0] = second * S_US
        alarm(ClockAlarm(second, 0))
    assert [each.off_us for each in told] == [0, ALARM_PAUSE_US // S_US]
