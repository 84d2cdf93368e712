"""ADR 6, and rules, section 3: a contradiction is listed, holds up what it may double, and can be
settled by a decision, whatever state it was reported in."""

from __future__ import annotations

import pytest

from ledger.core.vocabulary import Outcome, RunStatus, Verdict
from tests.support.driving import IDEMPOTENT, Driver, another, driven, refusal, said
from tests.support.in_process import P2, REVIEWER, REVIEWER_2, LedgerInProcess

SUCCEEDED, FAILED, NO_EFFECT = Outcome.SUCCEEDED, Outcome.FAILED, Outcome.NO_EFFECT
EXECUTED, NOT_EXECUTED = Verdict.EXECUTED, Verdict.NOT_EXECUTED


def _newest(driver: Driver, step: str = "s") -> int:
    return driver.ledger.step(driver.run, step).decisions[-1].index


# A write's FAILED


def test_a_contradicted_failed_write_holds_up_what_supersedes_it_until_it_is_decided(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.ended("s", FAILED, key="k")
    driver.complete("s")
    assert (driver.state("s"), ledger.unknowns()) == ("FAILED", ["run-1/s"])
    driver.plan("t", key="k2", supersedes="k")
    assert said(driver.start("t")) == "CONTRADICTION"
    assert said(driver.decide("s", NOT_EXECUTED)) == "ok"
    assert (driver.state("s"), ledger.unknowns()) == ("RECONCILED_NOT_EXECUTED", [])
    assert said(driver.start("t")) == "EXECUTE"


def test_a_failed_write_that_is_decided_executed_is_never_tried_again(
    ledger: LedgerInProcess,
) -> None:
    driver, other = driven(ledger, "run-1", ttl_s=600), driven(ledger, "run-2", ttl_s=600)
    driver.ended("s", FAILED, key="k", arguments=b"{}")
    driver.complete("s")
    assert said(driver.decide("s", EXECUTED, result=b"rc-1")) == "ok"
    driver.plan("t", key="k2", supersedes="k")
    assert said(driver.start("t")) == "NOT_SUPERSEDABLE"
    assert said(driver.start("s")) == "REPLAY_SUCCEEDED"
    other.plan("s", key="k", arguments=b"{}")
    assert said(other.start("s")) == "REPLAY_SUCCEEDED"
    assert ledger.unknowns() == []


def test_a_failed_write_is_decided_only_while_it_is_contradicted(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.ended("s", FAILED)
    assert said(driver.decide("s")) == "WRONG_STATE"
    driver.complete("s")
    assert said(driver.decide("s")) == "ok"
    assert said(driver.decide("s", by=REVIEWER_2)) == "WRONG_STATE"
    assert said(driver.decide("s", by=REVIEWER_2, supersedes=_newest(driver))) == "ok"


def test_an_equal_action_is_told_of_the_contradiction_and_not_of_an_unknown(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.ended("s", FAILED, key="k", arguments=b"{}")
    driver.complete("s")
    driver.plan("t", arguments=b"{}")
    assert said(driver.start("t")) == "SUPERSEDE_REQUIRED"
    driver.plan("u", key="k2", arguments=b"{}", supersedes="k")
    assert said(driver.start("u")) == "CONTRADICTION"


# An earlier attempt of a step that succeeded meanwhile


def _succeeded_twice(ledger: LedgerInProcess) -> Driver:
    """The first attempt had no effect, the second succeeded, then the first succeeded after all."""
    driver = driven(ledger, ttl_s=600)
    driver.ended("s", NO_EFFECT, key="k")
    assert said(driver.start("s")) == "EXECUTE"
    assert said(driver.complete("s", attempt=2, result=b"rc-2")) == "RECORDED"
    assert said(driver.complete("s", attempt=1, result=b"rc-1")) == "LATE"
    return driver


def test_a_success_of_an_attempt_without_effect_is_settled_without_leaving_succeeded(
    ledger: LedgerInProcess,
) -> None:
    driver = _succeeded_twice(ledger)
    before = ledger.step("run-1", "s")
    assert (before.state.value, ledger.unknowns()) == ("SUCCEEDED", ["run-1/s"])
    assert said(driver.decide("s", EXECUTED)) == "ok"
    after = ledger.step("run-1", "s")
    assert (after.state.value, ledger.unknowns()) == ("SUCCEEDED", [])
    assert (after.result_id, after.settled_index) == (before.result_id, before.settled_index)
    assert said(driver.start("s")) == "REPLAY_SUCCEEDED"


def test_a_success_is_never_decided_away(ledger: LedgerInProcess) -> None:
    driver = _succeeded_twice(ledger)
    before = ledger.types()
    refused = refusal(driver.decide("s", NOT_EXECUTED))
    assert (refused.reason.name, refused.details["state"]) == ("WRONG_STATE", "SUCCEEDED")
    assert ledger.types() == before
    driver.plan("t", key="k2", supersedes="k")
    assert said(driver.start("t")) == "NOT_SUPERSEDABLE"


def test_a_further_contradiction_of_a_success_is_settled_by_a_superseding_decision(
    ledger: LedgerInProcess,
) -> None:
    driver = _succeeded_twice(ledger)
    driver.decide("s", EXECUTED)
    first = _newest(driver)
    assert said(driver.decide("s", by=REVIEWER_2, supersedes=first)) == "WRONG_STATE"
    driver.complete("s", attempt=1, result=b"rc-3")
    assert ledger.unknowns() == ["run-1/s"]
    assert said(driver.decide("s", by=REVIEWER_2)) == "WRONG_STATE"
    assert said(driver.decide("s", by=REVIEWER, supersedes=first)) == "NOT_SUPERSEDING"
    assert said(driver.decide("s", by=REVIEWER_2, supersedes=first)) == "ok"
    assert ledger.unknowns() == []


def test_what_waits_for_a_contradicted_step_waits_until_it_is_decided(
    ledger: LedgerInProcess,
) -> None:
    driver = _succeeded_twice(ledger)
    driver.plan("next", after=["s"])
    assert said(driver.start("next")) == "WAITING"
    driver.decide("s", EXECUTED)
    assert said(driver.start("next")) == "EXECUTE"


def test_a_started_step_that_is_contradicted_is_decided_once_its_attempt_ended(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.ended("s", NO_EFFECT, effect=IDEMPOTENT)
    driver.start("s")
    driver.complete("s", attempt=1)
    assert ledger.unknowns() == ["run-1/s"]
    assert said(driver.decide("s")) == "WRONG_STATE"
    driver.complete("s", FAILED, attempt=2)
    assert said(driver.decide("s", EXECUTED)) == "ok"
    assert (driver.state("s"), ledger.unknowns()) == ("RECONCILED_EXECUTED", [])


# Two contradictions on one key


def _two_contradictions(ledger: LedgerInProcess) -> tuple[Driver, Driver, Driver]:
    """Both steps that started under the key had no effect, and both report a success later."""
    one, two = driven(ledger, "run-1", ttl_s=600), driven(ledger, "run-2", ttl_s=600)
    one.ended("s", NO_EFFECT, key="k", arguments=b"{}")
    two.ended("s", NO_EFFECT, key="k", arguments=b"{}")
    one.complete("s")
    two.complete("s")
    three = driven(ledger, "run-3", ttl_s=600)
    three.plan("same", key="k", arguments=b"{}")
    three.plan("next", key="k2", supersedes="k")
    assert sorted(ledger.unknowns()) == ["run-1/s", "run-2/s"]
    return one, two, three


@pytest.mark.parametrize("replica", [0, 1])
def test_settling_one_of_two_contradictions_leaves_the_other(
    ledger: LedgerInProcess, replica: int
) -> None:
    ledger.replica()
    one, two, three = _two_contradictions(ledger)
    assert said(two.decide("s", NOT_EXECUTED)) == "ok"
    three.at = replica
    assert ledger.unknowns() == ["run-1/s"]
    assert said(three.start("next")) == "CONTRADICTION"
    assert said(one.decide("s", NOT_EXECUTED)) == "ok"
    assert said(three.start("next")) == "EXECUTE"


def test_a_key_with_an_unsettled_contradiction_stays_unknown_after_another_was_settled(
    ledger: LedgerInProcess,
) -> None:
    one, two, three = _two_contradictions(ledger)
    assert said(three.start("same")) == "UNKNOWN"
    assert said(one.decide("s", NOT_EXECUTED)) == "ok"
    assert said(three.start("same")) == "UNKNOWN"
    assert said(two.decide("s", EXECUTED)) == "ok"
    assert said(three.start("same")) == "REPLAY_SUCCEEDED"


@pytest.mark.parametrize("later", ["FAILED", "NOT_EXECUTED"])
def test_a_key_that_an_earlier_owner_executed_is_replayed_and_never_superseded(
    ledger: LedgerInProcess, later: str
) -> None:
    one, two = driven(ledger, "run-1", ttl_s=600), driven(ledger, "run-2", ttl_s=600)
    one.ended("s", NO_EFFECT, key="k", arguments=b"{}")
    if later == "FAILED":
        two.ended("s", FAILED, key="k", arguments=b"{}")
    else:
        two.left_unknown("s", key="k", arguments=b"{}", operation_s=1)
        ledger.clock.advance(2)
        assert said(two.decide("s", NOT_EXECUTED)) == "ok"
    one.complete("s")
    three = driven(ledger, "run-3", ttl_s=600)
    three.plan("next", key="k2", supersedes="k")
    assert said(three.start("next")) == "CONTRADICTION"
    assert said(one.decide("s", EXECUTED)) == "ok"
    assert said(three.start("next")) == "NOT_SUPERSEDABLE"
    three.plan("same", key="k", arguments=b"{}")
    assert said(three.start("same")) == "REPLAY_SUCCEEDED"


# Closing


@pytest.mark.parametrize("outcome", [FAILED, NO_EFFECT])
def test_a_run_is_not_completed_while_a_report_contradicts_one_of_its_steps(
    ledger: LedgerInProcess, outcome: Outcome
) -> None:
    driver = driven(ledger)
    driver.ended("s", outcome)
    driver.complete("s")
    refused = refusal(driver.close(RunStatus.COMPLETED))
    assert (refused.reason.name, refused.step) == ("STEP_UNKNOWN", "s")
    driver.decide("s", EXECUTED)
    assert said(driver.close(RunStatus.COMPLETED)) == "ok"


def test_a_run_with_an_open_contradiction_is_closed_with_another_status_and_decided_after(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.ended("s", FAILED)
    driver.complete("s")
    assert said(driver.close(RunStatus.FAILED)) == "ok"
    assert said(another(driver, P2).complete("s", token=1)) == "LATE"
    assert ledger.unknowns() == ["run-1/s"]
    assert said(driver.decide("s", NOT_EXECUTED)) == "ok"
    assert ledger.unknowns() == []
