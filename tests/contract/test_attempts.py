"""Rules, section 3: what a report does to its attempt, and when a holder counts as dead."""

from __future__ import annotations

import pytest

from ledger.core.answers import Completed, Marked
from ledger.core.commands import BreakLease
from ledger.core.entry import Entry
from ledger.core.vocabulary import EffectClass, Outcome, RunStatus, Verdict
from tests.support.driving import (
    IDEMPOTENT,
    NON_IDEMPOTENT,
    PROPOSE,
    READ_ONLY,
    Driver,
    PlanFields,
    another,
    driven,
    said,
)
from tests.support.in_process import (
    ADMIN,
    P2,
    REVIEWER_2,
    LedgerInProcess,
)

SUCCEEDED, FAILED, NO_EFFECT = Outcome.SUCCEEDED, Outcome.FAILED, Outcome.NO_EFFECT


def body_of(entry: Entry) -> dict[str, object]:
    """An entry's body."""
    body = entry.event["body"]
    assert isinstance(body, dict)
    return dict(body)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_report_on_a_started_step_settles_it(ledger: LedgerInProcess, outcome: Outcome) -> None:
    driver = driven(ledger)
    driver.ended("s", outcome)
    assert driver.state("s") == outcome.value


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_report_by_a_token_that_did_not_start_the_attempt_is_kept_and_settles_nothing(
    ledger: LedgerInProcess, outcome: Outcome
) -> None:
    driver = driven(ledger)
    driver.started("s", operation_s=3600)
    ledger.clock.advance(31)
    other = another(driver, P2)
    other.acquire()
    before = ledger.step("run-1", "s").version
    for token, word in ((2, "LATE"), (7, "STALE_LEASE")):
        answer = other.complete("s", outcome, token=token)
        assert isinstance(answer, Completed)
        assert (answer.disposition, answer.evidence_recorded) == (word, True)
        last = body_of(ledger.entries("run-1")[-1])
        assert (last["kind"], last["attempt"], last["token"]) == ("late_completion", 1, token)
    assert driver.state("s") == "STARTED"
    assert ledger.step("run-1", "s").version > before


def test_a_late_success_reported_under_another_token_is_not_lost(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.ended("s", NO_EFFECT)
    ledger.clock.advance(31)
    other = another(driver, P2)
    other.acquire()
    answer = driver.complete("s", attempt=1, token=other.token)
    assert isinstance(answer, Completed)
    assert (answer.contradiction, ledger.unknowns()) == (True, ["run-1/s"])
    assert said(other.start("s")) == "UNKNOWN"


def test_a_report_on_an_attempt_that_was_never_started_is_refused(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.plan("planned")
    driver.started("s")
    before = ledger.types()
    assert said(driver.complete("s", attempt=2)) == "NO_SUCH_ATTEMPT"
    assert said(driver.complete("planned")) == "NO_SUCH_ATTEMPT"
    assert ledger.types() == before


# Holder dead


@pytest.mark.parametrize("ends", ["expired", "released", "broken", "newer"])
def test_a_write_waits_for_its_deadline_when_its_lease_is_over(
    ledger: LedgerInProcess, ends: str
) -> None:
    driver = driven(ledger)
    driver.started("s", operation_s=100)
    if ends == "expired":
        ledger.clock.advance(31)
    elif ends == "released":
        driver.release()
    elif ends == "broken":
        ledger.ask(BreakLease(driver.run, "stuck"), by=ADMIN)
    else:
        ledger.clock.advance(31)
        another(driver, P2).acquire()
    ledger.sweep()
    at_once = ends in ("released", "broken")
    assert driver.state("s") == ("UNKNOWN" if at_once else "STARTED")
    ledger.clock.advance(70)
    ledger.sweep()
    assert driver.state("s") == "UNKNOWN"


@pytest.mark.parametrize("effect", [READ_ONLY, PROPOSE])
def test_a_step_without_effects_ends_with_its_lease_and_may_start_again(
    ledger: LedgerInProcess, effect: EffectClass
) -> None:
    driver = driven(ledger)
    driver.started("s", operation_s=3600, effect=effect)
    ledger.clock.advance(31)
    ledger.sweep()
    last = ledger.entries("run-1")[-1]
    assert (last.type, body_of(last)["cause"]) == ("step.completed", "holder_lost")
    assert driver.state("s") == "FAILED"
    driver.acquire()
    assert said(driver.start("s")) == "EXECUTE"
    assert said(driver.complete("s", attempt=2)) == "RECORDED"


@pytest.mark.parametrize("effect", [READ_ONLY, NON_IDEMPOTENT])
def test_a_holder_that_keeps_its_lease_is_dead_ten_seconds_after_the_deadline(
    ledger: LedgerInProcess, effect: EffectClass
) -> None:
    driver = driven(ledger, ttl_s=3600)
    driver.started("s", operation_s=60, effect=effect)
    ledger.clock.advance(69)
    ledger.sweep()
    assert driver.state("s") == "STARTED"
    ledger.clock.advance(2)
    ledger.sweep()
    assert driver.state("s") == ("UNKNOWN" if effect.is_write else "FAILED")


@pytest.mark.parametrize("meets", ["acquire", "start", "reconcile", "close", "sweep"])
def test_whatever_meets_a_dead_holder_first_marks_its_step_unknown_once(
    ledger: LedgerInProcess, meets: str
) -> None:
    driver = driven(ledger, ttl_s=3600)
    driver.started("s", operation_s=5)
    ledger.clock.advance(16)
    for _ in range(2):
        match meets:
            case "acquire":
                another(driver, P2).acquire()
            case "start":
                assert said(driver.start("s")) == "UNKNOWN"
            case "reconcile":
                assert said(driver.decide("s", version=0)) == "VERSION_MISMATCH"
            case "close":
                assert said(driver.close()) == "STEP_UNKNOWN"
            case _:
                ledger.sweep()
    assert ledger.types("run-1").count("step.unknown") == 1
    assert body_of(ledger.entries("run-1")[-1])["cause"] == "holder_dead"


def test_the_owner_of_a_key_is_found_dead_from_another_run(ledger: LedgerInProcess) -> None:
    one, two = driven(ledger, "run-1"), driven(ledger, "run-2", ttl_s=3600)
    one.started("s", key="k", arguments=b"{}", operation_s=40)
    two.plan("s", key="k", arguments=b"{}")
    assert said(two.start("s")) == "HELD"
    ledger.clock.advance(35)
    assert said(two.start("s")) == "HELD"
    ledger.clock.advance(6)
    assert said(two.start("s")) == "UNKNOWN"
    assert ledger.unknowns() == ["run-1/s"]


# Marking unknown


def test_the_holder_of_the_attempt_may_mark_it_unknown_at_any_time(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("s", operation_s=3600)
    answer = driver.unknown("s")
    assert isinstance(answer, Marked)
    assert answer.unknown is not None
    assert answer.unknown.expected_version == driver.ledger.step("run-1", "s").version
    assert said(driver.unknown("s")) == "ALREADY_RECORDED"
    assert ledger.types("run-1").count("step.unknown") == 1


def test_the_holder_of_a_newer_token_marks_it_only_after_the_deadline(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("s", operation_s=100)
    ledger.clock.advance(31)
    other = another(driver, P2)
    other.acquire(ttl_s=600)
    assert said(other.unknown("s")) == "ATTEMPT_MAY_RUN"
    ledger.clock.advance(70)
    assert said(other.unknown("s")) == "RECORDED"


def test_a_holder_who_comes_back_may_still_mark_his_own_attempt(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.started("s", operation_s=3600)
    ledger.clock.advance(31)
    another(driver, P2).acquire()
    assert said(driver.unknown("s")) == "RECORDED"


def test_marking_a_settled_attempt_is_kept_as_evidence_and_changes_nothing(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.ended("s")
    version = ledger.step("run-1", "s").version
    assert said(driver.unknown("s")) == "LATE"
    assert (driver.state("s"), ledger.step("run-1", "s").version) == ("SUCCEEDED", version)


# Earlier attempts


@pytest.mark.parametrize("outcome", [FAILED, NO_EFFECT])
def test_no_success_of_a_later_attempt_settles_an_earlier_one_that_is_open(
    ledger: LedgerInProcess, outcome: Outcome
) -> None:
    driver = driven(ledger)
    driver.left_unknown("s", effect=IDEMPOTENT)
    assert said(driver.start("s")) == "EXECUTE"
    answer = driver.complete("s", outcome, attempt=2)
    assert isinstance(answer, Completed)
    assert (answer.disposition, answer.state) == ("RECORDED", "UNKNOWN")
    assert ledger.unknowns() == ["run-1/s"]


def test_a_success_settles_every_attempt(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.left_unknown("s", effect=IDEMPOTENT)
    driver.start("s")
    assert said(driver.complete("s", attempt=2)) == "RECORDED"
    assert driver.state("s") == "SUCCEEDED"
    assert all(attempt.is_settled for attempt in ledger.step("run-1", "s").attempts)
    assert ledger.unknowns() == []


def test_a_report_of_an_earlier_attempt_while_a_later_one_runs_is_late(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.left_unknown("s", effect=IDEMPOTENT)
    driver.start("s")
    answer = driver.complete("s", attempt=1)
    assert isinstance(answer, Completed)
    assert (answer.disposition, answer.evidence_recorded) == ("LATE", True)
    assert driver.state("s") == "STARTED"
    assert said(driver.complete("s", attempt=2)) == "RECORDED"


# Late reports


def test_a_late_success_settles_an_unknown_step_while_its_token_is_newest(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.left_unknown("s")
    ledger.clock.advance(100)
    assert said(driver.complete("s")) == "RECORDED"
    assert (driver.state("s"), ledger.unknowns()) == ("SUCCEEDED", [])


@pytest.mark.parametrize("outcome", [FAILED, NO_EFFECT])
def test_a_late_report_without_success_is_evidence_and_the_step_stays_unknown(
    ledger: LedgerInProcess, outcome: Outcome
) -> None:
    driver = driven(ledger)
    driver.left_unknown("s")
    before = ledger.step("run-1", "s").version
    answer = driver.complete("s", outcome)
    assert isinstance(answer, Completed)
    assert (answer.disposition, answer.evidence_recorded) == ("LATE", True)
    assert driver.state("s") == "UNKNOWN"
    assert ledger.step("run-1", "s").version > before


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_late_report_after_a_newer_token_is_evidence_of_its_attempt(
    ledger: LedgerInProcess, outcome: Outcome
) -> None:
    driver = driven(ledger)
    driver.started("s", operation_s=1)
    ledger.clock.advance(31)
    another(driver, P2).acquire()
    assert driver.state("s") == "UNKNOWN"
    answer = driver.complete("s", outcome, result=b"rc-77")
    assert isinstance(answer, Completed)
    assert (answer.disposition, answer.evidence_recorded) == ("STALE_LEASE", True)
    last = body_of(ledger.entries("run-1")[-1])
    assert (last["kind"], last["attempt"], last["why"]) == ("late_completion", 1, "STALE_LEASE")
    assert driver.state("s") == "UNKNOWN"


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_report_after_a_decision_is_evidence_and_contradicts_only_the_opposite(
    ledger: LedgerInProcess, verdict: Verdict, outcome: Outcome
) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.left_unknown("s", operation_s=1)
    ledger.clock.advance(2)
    driver.decide("s", verdict)
    state = driver.state("s")
    answer = driver.complete("s", outcome)
    assert isinstance(answer, Completed)
    opposite = (outcome is SUCCEEDED) == (verdict is Verdict.NOT_EXECUTED)
    assert (answer.disposition, answer.contradiction) == ("LATE", opposite)
    assert driver.state("s") == state
    assert ledger.unknowns() == (["run-1/s"] if opposite else [])


def test_a_report_equal_to_what_settled_the_attempt_is_answered_without_an_event(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("s")
    driver.complete("s", result=b"rc-1")
    before = ledger.types()
    assert said(driver.complete("s", result=b"rc-1")) == "ALREADY_RECORDED"
    assert ledger.types() == before
    assert said(driver.complete("s", result=b"rc-2")) == "LATE"
    assert said(driver.complete("s")) == "LATE"
    assert said(driver.complete("s", FAILED)) == "LATE"
    assert driver.state("s") == "SUCCEEDED"


def test_every_report_after_the_run_was_closed_is_evidence(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.ended("s")
    driver.left_unknown("u")
    driver.close(RunStatus.FAILED)
    for step in ("s", "u"):
        answer = driver.complete(step)
        assert isinstance(answer, Completed)
        assert (answer.disposition, answer.evidence_recorded) == ("LATE", True)
    assert (driver.state("s"), driver.state("u")) == ("SUCCEEDED", "UNKNOWN")


# Contradictions


@pytest.mark.parametrize("outcome", [FAILED, NO_EFFECT])
def test_a_success_after_the_opposite_report_is_a_contradiction(
    ledger: LedgerInProcess, outcome: Outcome
) -> None:
    driver = driven(ledger)
    driver.ended("s", outcome)
    answer = driver.complete("s")
    assert isinstance(answer, Completed)
    assert (answer.contradiction, driver.state("s")) == (True, outcome.value)
    assert ledger.unknowns() == ["run-1/s"]


def test_a_success_after_holder_lost_contradicts_nothing(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.started("s", effect=READ_ONLY)
    ledger.clock.advance(31)
    ledger.sweep()
    answer = driver.complete("s")
    assert isinstance(answer, Completed)
    assert (answer.disposition, answer.contradiction) == ("LATE", False)
    assert ledger.unknowns() == []


def test_a_contradiction_names_the_steps_that_were_answered_from_the_key(
    ledger: LedgerInProcess,
) -> None:
    one, two = driven(ledger, "run-1", ttl_s=600), driven(ledger, "run-2", ttl_s=600)
    one.left_unknown("s", key="k", arguments=b"{}")
    one.decide("s", Verdict.EXECUTED)
    two.plan("t", key="k", arguments=b"{}")
    assert said(two.start("t")) == "REPLAY_SUCCEEDED"
    answer = one.complete("s", FAILED)
    assert isinstance(answer, Completed)
    assert answer.contradiction
    assert body_of(ledger.entries("run-1")[-1])["replayed"] == ["run-2", "t"]


def test_while_a_success_contradicts_no_effect_the_key_is_unknown_for_everybody(
    ledger: LedgerInProcess,
) -> None:
    one, two = driven(ledger, "run-1"), driven(ledger, "run-2")
    one.ended("s", NO_EFFECT, key="k", arguments=b"{}")
    two.plan("s", key="k", arguments=b"{}")
    one.complete("s")
    assert said(one.start("s")) == "UNKNOWN"
    assert said(two.start("s")) == "UNKNOWN"
    assert said(one.decide("s", Verdict.EXECUTED)) == "ok"
    assert said(two.start("s")) == "REPLAY_SUCCEEDED"


def test_a_key_is_not_started_again_after_an_earlier_owner_turns_out_to_have_executed(
    ledger: LedgerInProcess,
) -> None:
    one, two = driven(ledger, "run-1", ttl_s=600), driven(ledger, "run-2", ttl_s=600)
    one.ended("s", NO_EFFECT, key="k", arguments=b"{}")
    two.ended("s", NO_EFFECT, key="k", arguments=b"{}")
    assert said(one.complete("s")) == "LATE"
    assert said(two.start("s")) == "UNKNOWN"
    assert said(one.decide("s", Verdict.EXECUTED)) == "ok"
    assert said(two.start("s")) == "REPLAY_SUCCEEDED"


def test_a_key_that_an_earlier_owner_executed_is_spent_even_if_a_later_start_had_no_effect(
    ledger: LedgerInProcess,
) -> None:
    one, two = driven(ledger, "run-1", ttl_s=600), driven(ledger, "run-2", ttl_s=600)
    one.ended("s", NO_EFFECT, key="k", arguments=b"{}")
    two.started("s", key="k", arguments=b"{}")
    assert said(one.complete("s")) == "LATE"
    assert said(one.decide("s", Verdict.EXECUTED)) == "ok"
    assert said(two.complete("s", NO_EFFECT)) == "RECORDED"
    assert said(two.start("s")) == "REPLAY_SUCCEEDED"


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_superseding_decision_clears_a_contradiction(
    ledger: LedgerInProcess, verdict: Verdict
) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.abandoned("s")
    driver.complete("s")
    assert ledger.unknowns() == ["run-1/s"]
    decided = ledger.step("run-1", "s").decisions[-1].index
    assert said(driver.decide("s", verdict, by=REVIEWER_2, supersedes=decided)) == "ok"
    assert ledger.unknowns() == []


# Replayed


@pytest.mark.parametrize("first_try", ["planned", "no effect"])
@pytest.mark.parametrize("settled", ["SUCCEEDED", "FAILED", "RECONCILED_EXECUTED"])
def test_a_step_is_settled_from_its_key_without_running(
    ledger: LedgerInProcess, settled: str, first_try: str
) -> None:
    one, two = driven(ledger, "run-1", ttl_s=600), driven(ledger, "run-2", ttl_s=600)
    if first_try == "no effect":
        two.ended("t", NO_EFFECT, key="k", arguments=b"{}")
    else:
        two.plan("t", key="k", arguments=b"{}")
    settle(one, settled)
    expected = "FAILED" if settled == "FAILED" else "SUCCEEDED"
    assert said(two.start("t")) == f"REPLAY_{expected}"
    assert two.state("t") == expected
    last = ledger.entries("run-2")[-1]
    named = ledger.step("run-1", "s").settled_index
    assert (last.type, body_of(last)["settled_by"]) == ("step.replayed", named)
    assert said(two.start("t")) == f"REPLAY_{expected}"
    assert ledger.types("run-2").count("step.replayed") == 1


def settle(driver: Driver, state: str, *, key: str = "k", arguments: bytes = b"{}") -> None:
    """Plans step `s` under a key and brings it, and so the key, into a state."""
    plan: PlanFields = {"key": key, "arguments": arguments}
    match state:
        case "STARTED":
            driver.started("s", **plan)
        case "SUCCEEDED" | "FAILED" | "NO_EFFECT":
            driver.ended("s", Outcome(state), **plan)
        case "UNKNOWN":
            driver.left_unknown("s", **plan)
        case "RECONCILED_EXECUTED":
            driver.left_unknown("s", **plan)
            assert said(driver.decide("s", Verdict.EXECUTED)) == "ok"
        case _:
            driver.abandoned("s", **plan)
    assert driver.state("s") == state
