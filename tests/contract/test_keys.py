"""Rules, section 5, and contract, section 5: what a key answers, and how it is superseded."""

from __future__ import annotations

import pytest

from ledger.core.answers import Held, OutcomeUnknown, Planned, Replay
from ledger.core.ids import Tenant
from ledger.core.vocabulary import Outcome, RunStatus, Verdict
from tests.contract.test_attempts import settle
from tests.support.driving import IDEMPOTENT, READ_ONLY, Driver, driven, opened, refusal, said
from tests.support.in_process import REVIEWER_2, House, LedgerInProcess
from tests.support.oracle import payload_refs

SUCCEEDED, FAILED, NO_EFFECT = Outcome.SUCCEEDED, Outcome.FAILED, Outcome.NO_EFFECT


def _key(driver: Driver, step: str) -> str:
    return driver.ledger.step(driver.run, step).key


# How a key stands in entries


def test_a_step_without_a_key_is_given_the_derived_one(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    answer = driver.plan("s")
    assert isinstance(answer, Planned)
    (key,) = answer.keys
    assert key.startswith("d:")
    assert (len(key), key) == (45, _key(driver, "s"))
    assert said(driver.plan("s")) == "ok"


def test_a_step_without_effects_has_no_key(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    answer = driver.plan("s", effect=READ_ONLY)
    assert isinstance(answer, Planned)
    assert (answer.keys, _key(driver, "s")) == (("",), "")
    driver.start("s")
    assert "key" not in str(ledger.entries("run-1")[-1].event["body"])


@pytest.mark.parametrize("given", ["order-7", "A/b:c@d#e.f_g-h"])
def test_a_key_that_is_an_id_stands_as_it_is(ledger: LedgerInProcess, given: str) -> None:
    driver = driven(ledger)
    driver.plan("s", key=given)
    assert _key(driver, "s") == given


@pytest.mark.parametrize("given", ["_own", "d:mine", "x:mine", "two words", "café", "k\x00k"])
def test_every_other_key_is_hidden_and_its_bytes_are_sealed(
    ledger: LedgerInProcess, given: str
) -> None:
    driver = driven(ledger)
    driver.plan("s", key=given)
    key = _key(driver, "s")
    assert key.startswith("x:")
    planned = ledger.entries("run-1")[-1]
    assert [ref["name"] for ref in payload_refs(planned)] == ["arguments", "key"]
    assert given.encode() not in planned.raw


def test_keys_are_compared_byte_for_byte(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    spellings = ["k", "K", "k ", "caf\u00e9", "cafe\u0301"]
    for at, spelling in enumerate(spellings):
        driver.ended(f"s{at}", key=spelling)
    other = driven(ledger, "run-2")
    for at, spelling in enumerate(spellings):
        other.plan(f"t{at}", key=spelling, arguments=f'{{"step":"run-1/s{at}"}}'.encode())
        answer = other.start(f"t{at}")
        assert isinstance(answer, Replay)
        assert answer.step == f"s{at}"


def test_a_key_belongs_to_one_tool_and_one_tenant(ledger: LedgerInProcess, house: House) -> None:
    one = driven(ledger)
    one.ended("s", key="k", tool="refund")
    one.started("t", key="k", tool="send")
    elsewhere = LedgerInProcess(house, Tenant(f"{ledger.tenant}-other"))
    driven(elsewhere).started("s", key="k", tool="refund", arguments=b"else")
    elsewhere.close()


# Key state -> directive


def test_a_free_key_is_executed(ledger: LedgerInProcess) -> None:
    assert driven(ledger).started("s", key="k").key == "k"


def test_a_key_that_is_started_by_a_live_holder_is_held(ledger: LedgerInProcess) -> None:
    one, two = driven(ledger, "run-1"), driven(ledger, "run-2")
    settle(one, "STARTED")
    two.plan("t", key="k", arguments=b"{}")
    answer = two.start("t")
    assert isinstance(answer, Held)
    assert (answer.run, answer.step, answer.holder) == ("run-1", "s", "host-1")


def test_a_key_of_a_dead_attempt_is_unknown_with_the_ids_that_reconcile_takes(
    ledger: LedgerInProcess,
) -> None:
    one, two = driven(ledger, "run-1"), driven(ledger, "run-2")
    settle(one, "UNKNOWN")
    two.plan("t", key="k", arguments=b"{}", effect=None)
    answer = two.start("t")
    assert isinstance(answer, OutcomeUnknown)
    named = answer.unknown
    assert (named.run, named.step, named.key) == ("run-1", "s", "k")
    assert named.expected_version == ledger.step("run-1", "s").version
    assert said(one.decide(named.step, version=named.expected_version)) == "ok"
    assert said(two.start("t")) == "REPLAY_SUCCEEDED"


def test_an_unknown_key_of_an_idempotent_write_is_started_again_only_by_its_own_step(
    ledger: LedgerInProcess,
) -> None:
    one, two = driven(ledger, "run-1"), driven(ledger, "run-2")
    one.left_unknown("s", key="k", arguments=b"{}", effect=IDEMPOTENT)
    two.plan("t", key="k", arguments=b"{}")
    assert said(two.start("t")) == "UNKNOWN"
    assert said(one.start("s")) == "EXECUTE"


def test_a_replay_tells_whose_outcome_it_is(ledger: LedgerInProcess) -> None:
    one, two = driven(ledger, "run-1"), driven(ledger, "run-2")
    one.started("s", key="k", arguments=b"{}")
    one.complete("s", result=b"rc-1")
    two.plan("t", key="k", arguments=b"{}")
    for _ in range(2):
        answer = two.start("t")
        assert isinstance(answer, Replay)
        assert (answer.run, answer.step) == ("run-1", "s")
        assert answer.payload_id == ledger.step("run-1", "s").result_id
        assert answer.settled_index == ledger.step("run-1", "s").settled_index


def test_an_abandoned_key_is_refused_to_everybody(ledger: LedgerInProcess) -> None:
    one, two = driven(ledger, "run-1", ttl_s=600), driven(ledger, "run-2", ttl_s=600)
    settle(one, "RECONCILED_NOT_EXECUTED")
    two.plan("t", key="k", arguments=b"{}")
    assert said(one.start("s")) == "KEY_ABANDONED"
    refused = refusal(two.start("t"))
    assert (refused.reason.name, refused.may_succeed_later) == ("KEY_ABANDONED", False)


def test_a_key_without_effect_is_free_for_another_step_with_the_same_arguments(
    ledger: LedgerInProcess,
) -> None:
    one, two = driven(ledger, "run-1"), driven(ledger, "run-2")
    settle(one, "NO_EFFECT")
    two.started("t", key="k", arguments=b"{}")
    assert said(one.start("s")) == "HELD"
    two.complete("t")
    assert said(one.start("s")) == "REPLAY_SUCCEEDED"


def test_a_key_outlives_its_run(ledger: LedgerInProcess) -> None:
    one, two = driven(ledger, "run-1"), driven(ledger, "run-2")
    settle(one, "SUCCEEDED")
    one.close()
    ledger.clock.advance(20)
    two.plan("t", key="k", arguments=b"{}")
    two.plan("u", key="k", arguments=b"2")
    assert said(two.start("t")) == "REPLAY_SUCCEEDED"
    assert said(two.start("u")) == "KEY_CONFLICT"


# Superseding


@pytest.mark.parametrize("state", ["FAILED", "RECONCILED_NOT_EXECUTED"])
def test_a_key_that_ended_without_its_effect_is_superseded_once(
    ledger: LedgerInProcess, state: str
) -> None:
    one, two = driven(ledger, "run-1", ttl_s=600), driven(ledger, "run-2", ttl_s=600)
    settle(one, state)
    one.started("t", key="k2", arguments=b"other", supersedes="k")
    two.plan("u", key="k3", supersedes="k")
    refused = refusal(two.start("u"))
    assert refused.reason.name == "SUPERSEDED_ALREADY"
    assert (refused.run, refused.step, refused.key) == ("run-1", "t", "k2")
    assert not refused.may_succeed_later


@pytest.mark.parametrize(
    "state", ["STARTED", "SUCCEEDED", "NO_EFFECT", "UNKNOWN", "RECONCILED_EXECUTED"]
)
def test_no_other_key_is_supersedable(ledger: LedgerInProcess, state: str) -> None:
    one, two = driven(ledger, "run-1"), driven(ledger, "run-2")
    settle(one, state)
    two.plan("t", key="k2", supersedes="k")
    assert said(two.start("t")) == "NOT_SUPERSEDABLE"


def test_a_supersession_holds_for_its_new_key_in_any_run(ledger: LedgerInProcess) -> None:
    one, two = driven(ledger, "run-1", ttl_s=600), driven(ledger, "run-2", ttl_s=600)
    settle(one, "RECONCILED_NOT_EXECUTED")
    one.ended("t", NO_EFFECT, key="k2", arguments=b"2", supersedes="k")
    two.ended("t", NO_EFFECT, key="k2", arguments=b"2", supersedes="k")
    assert said(one.start("t")) == "EXECUTE"


def test_two_starts_that_race_to_supersede_a_key_leave_one_winner(
    ledger: LedgerInProcess,
) -> None:
    ledger.replica()
    one = driven(ledger, "run-1", ttl_s=600)
    settle(one, "FAILED")
    drivers = [driven(ledger, f"run-{at}") for at in range(2, 8)]
    for driver in drivers:
        driver.plan("t", key=f"k-{driver.run}", supersedes="k")
    answers = ledger.submit_at_once(
        *(
            (at % 2, [ledger.request(driver.start_command("t"))])
            for at, driver in enumerate(drivers)
        )
    )
    words = [said(outcome.answer) for (outcome,) in answers]  # type: ignore[union-attr]
    assert sorted(words) == ["EXECUTE"] + ["SUPERSEDED_ALREADY"] * 5


def test_an_equal_action_that_ended_is_superseded_or_not_started(ledger: LedgerInProcess) -> None:
    driver = driven(ledger, ttl_s=600)
    settle(driver, "FAILED", key="k1")
    driver.plan("b", key="k2", arguments=b"{}")
    refused = refusal(driver.start("b"))
    assert (refused.reason.name, refused.key) == ("SUPERSEDE_REQUIRED", "k1")
    driver.ended("c", FAILED, key="k3", arguments=b"{}", supersedes="k1")
    driver.plan("d", key="k4", arguments=b"{}", supersedes="k1")
    refused = refusal(driver.start("d"))
    assert (refused.reason.name, refused.key) == ("SUPERSEDE_REQUIRED", "k3")
    driver.ended("e", key="k5", arguments=b"{}", supersedes="k3")
    driver.plan("f", key="k6", arguments=b"{}")
    assert refusal(driver.start("f")).key == "k5"


def test_across_runs_only_given_keys_protect(ledger: LedgerInProcess) -> None:
    one, two = driven(ledger, "run-1"), driven(ledger, "run-2")
    one.left_unknown("s", arguments=b"{}")
    two.plan("s", arguments=b"{}")
    assert said(two.start("s")) == "EXECUTE"


def test_only_a_first_decision_makes_a_key_supersedable(ledger: LedgerInProcess) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.left_unknown("s", key="k", operation_s=1)
    ledger.clock.advance(2)
    driver.decide("s", Verdict.EXECUTED)
    decided = ledger.step("run-1", "s").decisions[-1].index
    driver.decide("s", Verdict.NOT_EXECUTED, by=REVIEWER_2, supersedes=decided)
    assert driver.state("s") == "RECONCILED_NOT_EXECUTED"
    driver.plan("t", key="k2", supersedes="k")
    assert said(driver.start("t")) == "NOT_SUPERSEDABLE"


def test_a_reaffirmed_key_stays_supersedable(ledger: LedgerInProcess) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.abandoned("s", key="k")
    decided = ledger.step("run-1", "s").decisions[-1].index
    driver.decide("s", Verdict.NOT_EXECUTED, by=REVIEWER_2, supersedes=decided)
    driver.started("t", key="k2", supersedes="k")


def test_a_key_that_turns_out_executed_is_superseded_no_longer(ledger: LedgerInProcess) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.abandoned("s", key="k")
    driver.ended("t", NO_EFFECT, key="k2", supersedes="k")
    decided = ledger.step("run-1", "s").decisions[-1].index
    driver.decide("s", Verdict.EXECUTED, by=REVIEWER_2, supersedes=decided)
    assert said(driver.start("t")) == "NOT_SUPERSEDABLE"
    assert said(driver.start("s")) == "REPLAY_SUCCEEDED"


def test_no_step_supersedes_a_key_under_contradiction_until_it_is_settled(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.abandoned("s", key="k")
    driver.plan("t", key="k2", supersedes="k")
    driver.complete("s")
    refused = refusal(driver.start("t"))
    assert (refused.reason.name, refused.may_succeed_later) == ("CONTRADICTION", True)
    decided = ledger.step("run-1", "s").decisions[-1].index
    driver.decide("s", Verdict.NOT_EXECUTED, by=REVIEWER_2, supersedes=decided)
    assert said(driver.start("t")) == "EXECUTE"


def _superseded_twice(driver: Driver) -> None:
    driver.abandoned("s", key="k")
    driver.abandoned("t", key="k2", supersedes="k")
    driver.plan("u", key="k3", supersedes="k2")


def test_a_contradiction_holds_up_whatever_follows_it_in_the_chain(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger, ttl_s=600)
    _superseded_twice(driver)
    driver.complete("s")
    refused = refusal(driver.start("u"))
    assert (refused.reason.name, refused.step) == ("CONTRADICTION", "s")
    decided = ledger.step("run-1", "s").decisions[-1].index
    driver.decide("s", Verdict.NOT_EXECUTED, by=REVIEWER_2, supersedes=decided)
    assert said(driver.start("u")) == "EXECUTE"


def test_nothing_in_a_chain_starts_once_its_first_key_turns_out_executed(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger, ttl_s=600)
    _superseded_twice(driver)
    decided = ledger.step("run-1", "s").decisions[-1].index
    driver.decide("s", Verdict.EXECUTED, by=REVIEWER_2, supersedes=decided)
    assert said(driver.start("u")) == "NOT_SUPERSEDABLE"


@pytest.mark.parametrize("replica", [0, 1])
def test_a_key_that_took_the_place_of_another_answers_for_it_in_every_run(
    ledger: LedgerInProcess, replica: int
) -> None:
    ledger.replica()
    driver = driven(ledger, ttl_s=600)
    driver.abandoned("s", key="k")
    driver.ended("t", NO_EFFECT, key="k2", arguments=b"{}", supersedes="k")
    driver.complete("s")
    other = driven(ledger, "run-2")
    other.plan("t", key="k2", arguments=b"{}")
    other.at = replica
    assert said(other.start("t")) == "CONTRADICTION"


def test_a_decision_on_a_later_start_leaves_what_contradicts_an_earlier_one(
    ledger: LedgerInProcess,
) -> None:
    one, two = driven(ledger, "run-1", ttl_s=600), driven(ledger, "run-2", ttl_s=600)
    one.ended("s", NO_EFFECT, key="k", arguments=b"{}")
    two.left_unknown("s", key="k", arguments=b"{}", operation_s=1)
    one.complete("s")
    ledger.clock.advance(2)
    two.decide("s", Verdict.NOT_EXECUTED)
    three = driven(ledger, "run-3")
    three.plan("s", key="k2", supersedes="k")
    assert said(three.start("s")) == "CONTRADICTION"
    one.decide("s", Verdict.NOT_EXECUTED)
    assert said(three.start("s")) == "EXECUTE"


def test_what_a_step_supersedes_stands_in_its_plan_and_in_its_start(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.ended("s", FAILED, key="k")
    driver.started("t", key="k2", supersedes="k")
    planned, started = ledger.entries("run-1")[-2:]
    for entry in (planned, started):
        body = entry.event["body"]
        assert isinstance(body, dict)
        assert (body["supersedes"], body["key"]) == ("k", "k2")
    assert said(driver.plan("t", key="k2")) == "PLAN_MISMATCH"


def test_a_key_in_a_closed_and_failed_run_stays_unknown(ledger: LedgerInProcess) -> None:
    one = driven(ledger, "run-1")
    settle(one, "UNKNOWN")
    one.close(RunStatus.FAILED)
    two = opened(ledger, "run-2")
    two.acquire()
    two.plan("t", key="k", arguments=b"{}")
    assert said(two.start("t")) == "UNKNOWN"
    one.decide("s", Verdict.EXECUTED)
    assert said(two.start("t")) == "REPLAY_SUCCEEDED"
