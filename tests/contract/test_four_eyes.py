"""ADR 9, contract, section 9, and rules, section 6: what two people decide, one proposes and the
other confirms."""

from __future__ import annotations

import pytest

from ledger.core.answers import Answered
from ledger.core.commands import AttachEvidence, ProposeDecision
from ledger.core.ids import PrincipalId, RunId, StepId
from ledger.core.policy import Policies, Policy
from ledger.core.vocabulary import ActorKind, EffectClass, Outcome, Role, RunStatus, Verdict
from tests.support.driving import IDEMPOTENT, NON_IDEMPOTENT, Driver, driven, refusal, said
from tests.support.in_process import (
    CONFIRMER,
    REVIEWER,
    REVIEWER_2,
    REVIEWER_3,
    RUNTIME,
    LedgerInProcess,
    caller,
)

EXECUTED, NOT_EXECUTED = Verdict.EXECUTED, Verdict.NOT_EXECUTED
FOUR_EYES = Policy(four_eyes=frozenset({NON_IDEMPOTENT}))
REVIEWER_4 = caller("reviewer-4", ActorKind.HUMAN, Role.READ, Role.RECONCILE)


def _driver(ledger: LedgerInProcess, *, policy: Policy = FOUR_EYES, run: str = "run-1") -> Driver:
    """A run driven through a server that asks for two people."""
    if len(ledger.replicas) == 1:
        ledger.replica(policy=policy)
    driver = driven(ledger, run, ttl_s=600)
    driver.at = 1
    return driver


def _proposed(driver: Driver, step: str = "s", at: int = -1) -> int:
    return driver.ledger.step(driver.run, step).proposals[at].index


# One proposes, another confirms


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_second_person_confirms_what_a_first_one_proposed(
    ledger: LedgerInProcess, verdict: Verdict
) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s", operation_s=1)
    ledger.clock.advance(2)
    version = ledger.step("run-1", "s").version
    assert said(driver.propose("s", verdict, by=REVIEWER)) == "ok"
    step = ledger.step("run-1", "s")
    assert (step.state.value, step.version, ledger.unknowns()) == ("UNKNOWN", version, ["run-1/s"])
    index = _proposed(driver)
    assert said(driver.decide("s", verdict, by=REVIEWER_2, proposal=index)) == "ok"
    assert driver.state("s") == f"RECONCILED_{verdict.upper()}"
    assert ledger.types("run-1")[-2:] == ["step.reconcile_proposed", "step.reconciled"]
    assert ledger.entries("run-1")[-2].index == index
    assert ledger.step("run-1", "s").proposals == []


def test_nobody_decides_alone_where_two_people_decide(ledger: LedgerInProcess) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s")
    before = ledger.types()
    refused = refusal(driver.decide("s"))
    assert (refused.reason.name, refused.may_succeed_later) == ("PROPOSAL_REQUIRED", False)
    assert refused.details == {"class": "NON_IDEMPOTENT_WRITE", "standing": ""}
    assert ledger.types() == before
    driver.propose("s")
    index = _proposed(driver)
    assert refusal(driver.decide("s", by=REVIEWER_2)).details["standing"] == f"{index}:executed"
    assert said(driver.decide("s", by=REVIEWER_2, proposal=index + 1)) == "PROPOSAL_REQUIRED"
    assert said(driver.decide("s", by=REVIEWER_2, proposal=index)) == "ok"


def test_nobody_confirms_his_own_proposal(ledger: LedgerInProcess) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s")
    driver.propose("s", by=REVIEWER)
    assert said(driver.decide("s", by=REVIEWER, proposal=_proposed(driver))) == "OWN_PROPOSAL"
    driver.propose("s", by=REVIEWER_2)
    assert said(driver.decide("s", by=REVIEWER, proposal=_proposed(driver))) == "ok"


def test_another_verdict_than_the_proposed_one_is_no_confirmation(ledger: LedgerInProcess) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s", operation_s=1)
    ledger.clock.advance(2)
    driver.propose("s", EXECUTED)
    answer = driver.decide("s", NOT_EXECUTED, by=REVIEWER_2, proposal=_proposed(driver))
    assert said(answer) == "PROPOSAL_REQUIRED"
    assert driver.state("s") == "UNKNOWN"


def test_who_drove_the_run_proposes_and_confirms_nothing_in_it(ledger: LedgerInProcess) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s")
    drove = caller(RUNTIME.principal, ActorKind.HUMAN, Role.RECONCILE)
    assert said(driver.propose("s", by=drove)) == "SELF_RECONCILE"
    driver.propose("s")
    assert said(driver.decide("s", by=drove, proposal=_proposed(driver))) == "SELF_RECONCILE"
    runtime = caller("runtime-9", ActorKind.RUNTIME, Role.RECONCILE)
    assert said(driver.propose("s", by=runtime)) == "ROLE_MISSING"


def test_a_proposal_makes_no_driver(ledger: LedgerInProcess) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s")
    driver.left_unknown("t")
    driver.propose("s", by=REVIEWER)
    driver.propose("t", by=REVIEWER_2)
    assert said(driver.decide("t", by=REVIEWER, proposal=_proposed(driver, "t"))) == "ok"


# What voids a proposal


def test_new_evidence_voids_a_proposal_and_an_inconclusive_answer_does_not(
    ledger: LedgerInProcess,
) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s")
    driver.propose("s")
    index = _proposed(driver)
    note = AttachEvidence(RunId("run-1"), "no_answer", StepId("s"), 1)
    ledger.ask(note, by=CONFIRMER)
    driver.evidence("s")
    assert _proposed(driver) == index
    found = AttachEvidence(RunId("run-1"), "found", StepId("s"), 1, outcome=Outcome.SUCCEEDED)
    ledger.ask(found, by=CONFIRMER)
    assert ledger.step("run-1", "s").proposals == []
    assert said(driver.decide("s", by=REVIEWER_2, proposal=index)) == "PROPOSAL_REQUIRED"


def test_a_late_success_voids_a_proposal(ledger: LedgerInProcess) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s", operation_s=1)
    ledger.clock.advance(2)
    driver.propose("s", NOT_EXECUTED)
    index = _proposed(driver)
    assert said(driver.complete("s")) == "RECORDED"
    assert said(driver.decide("s", NOT_EXECUTED, by=REVIEWER_2, proposal=index)) == "WRONG_STATE"
    assert driver.state("s") == "SUCCEEDED"


def test_a_person_who_proposes_anew_takes_his_first_proposal_back(ledger: LedgerInProcess) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s", operation_s=1)
    ledger.clock.advance(2)
    driver.propose("s", EXECUTED)
    first = _proposed(driver)
    driver.propose("s", NOT_EXECUTED)
    driver.propose("s", EXECUTED, by=REVIEWER_3)
    assert len(ledger.step("run-1", "s").proposals) == 2
    assert said(driver.decide("s", by=REVIEWER_2, proposal=first)) == "PROPOSAL_REQUIRED"
    second = _proposed(driver, at=0)
    assert said(driver.decide("s", NOT_EXECUTED, by=REVIEWER_2, proposal=second)) == "ok"


# The rules of a decision bind a proposal


def test_a_proposal_obeys_the_rules_of_a_decision(ledger: LedgerInProcess) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s", operation_s=600)
    driver.ended("done")
    assert said(driver.propose("s", NOT_EXECUTED)) == "TOO_EARLY"
    assert said(driver.propose("done")) == "WRONG_STATE"
    stale = ProposeDecision(RunId("run-1"), StepId("s"), EXECUTED, "looked", 0)
    assert said(ledger.ask(stale, by=REVIEWER, at=1)) == "VERSION_MISMATCH"
    nowhere = ProposeDecision(RunId("run-1"), StepId("nowhere"), EXECUTED, "looked", 0)
    assert said(ledger.ask(nowhere, by=REVIEWER, at=1)) == "STEP_NOT_PLANNED"


def test_a_proposal_meets_a_dead_holder_as_a_decision_does(ledger: LedgerInProcess) -> None:
    driver = _driver(ledger)
    driver.started("s", operation_s=1)
    ledger.clock.advance(12)
    assert said(driver.propose("s")) == "VERSION_MISMATCH"
    assert driver.state("s") == "UNKNOWN"
    assert said(driver.propose("s")) == "ok"


def test_two_people_decide_in_a_closed_run_as_well(ledger: LedgerInProcess) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s")
    driver.close(RunStatus.FAILED)
    assert said(driver.propose("s")) == "ok"
    assert said(driver.decide("s", by=REVIEWER_2, proposal=_proposed(driver))) == "ok"


def test_a_superseding_decision_takes_two_people_who_made_none_before(
    ledger: LedgerInProcess,
) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s", operation_s=1)
    ledger.clock.advance(2)
    driver.propose("s", by=REVIEWER)
    driver.decide("s", by=REVIEWER_2, proposal=_proposed(driver))
    first = ledger.step("run-1", "s").decision_index
    for each in (REVIEWER, REVIEWER_2):
        answer = driver.propose("s", NOT_EXECUTED, by=each, supersedes=first)
        assert said(answer) == "NOT_SUPERSEDING"
    assert said(driver.propose("s", NOT_EXECUTED, by=REVIEWER_3, supersedes=first)) == "ok"
    index = _proposed(driver)
    answer = driver.decide("s", NOT_EXECUTED, by=REVIEWER_4, supersedes=first, proposal=index)
    assert said(answer) == "ok"
    assert driver.state("s") == "RECONCILED_NOT_EXECUTED"


# Confirmers


def test_a_confirmers_answer_is_a_proposal_that_one_person_confirms(
    ledger: LedgerInProcess,
) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s")
    assert said(driver.decide("s", by=CONFIRMER)) == "PROPOSAL_REQUIRED"
    assert said(driver.propose("s", by=CONFIRMER)) == "ok"
    index = _proposed(driver)
    other = caller("confirmer-2", ActorKind.CONFIRMER, Role.CONFIRM)
    assert said(driver.decide("s", by=other, proposal=index)) == "PROPOSAL_REQUIRED"
    assert said(driver.decide("s", by=REVIEWER, proposal=index)) == "ok"


# Where it applies


def test_classes_that_are_not_named_take_one_person(ledger: LedgerInProcess) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s", effect=IDEMPOTENT)
    refused = refusal(driver.propose("s"))
    assert (refused.reason.name, refused.details["class"]) == ("WRONG_STATE", "IDEMPOTENT_WRITE")
    assert said(driver.decide("s")) == "ok"


def test_by_default_one_person_decides(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.left_unknown("s")
    assert said(driver.propose("s")) == "WRONG_STATE"
    assert said(driver.decide("s")) == "ok"


def test_a_tenants_own_policy_counts_before_the_one_for_all(ledger: LedgerInProcess) -> None:
    own = Policy(four_eyes=frozenset({EffectClass.IDEMPOTENT_WRITE}))
    policies = Policies(FOUR_EYES, {ledger.tenant: own})
    assert policies.of(ledger.tenant) is own
    assert policies.of(caller("x", ActorKind.HUMAN, tenant="another").tenant) is FOUR_EYES


def test_not_executed_waits_for_the_margin_of_its_tool(ledger: LedgerInProcess) -> None:
    policy = Policy(settle_margin_us=5_000_000, settle_margin_us_by_tool={"slow": 60_000_000})
    driver = _driver(ledger, policy=policy)
    driver.left_unknown("quick", operation_s=1)
    driver.left_unknown("slow", tool="slow", operation_s=1)
    ledger.clock.advance(8)
    assert said(driver.decide("quick", NOT_EXECUTED)) == "ok"
    assert said(driver.decide("slow", NOT_EXECUTED)) == "TOO_EARLY"
    ledger.clock.advance(54)
    assert said(driver.decide("slow", NOT_EXECUTED)) == "ok"
    # What the list says of a margin is a convenience that a rebuild without it does not know.
    assert ledger.unknowns() == []


# Asked again, and shown


def test_a_repeated_proposal_is_answered_with_its_entry(ledger: LedgerInProcess) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s")
    seen = ledger.step("run-1", "s").version
    request = ledger.request(
        ProposeDecision(RunId("run-1"), StepId("s"), EXECUTED, "looked", seen), by=REVIEWER
    )
    first, again = ledger.send(request, at=1), ledger.send(request, at=1)
    assert isinstance(first, Answered)
    assert first.append is not None
    assert again.append is not None
    assert again.append.index == first.append.index == _proposed(driver)


@pytest.mark.parametrize("replica", [0, 1])
def test_the_list_shows_the_proposals_that_stand(ledger: LedgerInProcess, replica: int) -> None:
    driver = _driver(ledger)
    driver.left_unknown("s", operation_s=1)
    ledger.clock.advance(2)
    driver.propose("s", EXECUTED, by=REVIEWER)
    driver.propose("s", NOT_EXECUTED, by=REVIEWER_2)
    driver.at = replica
    with ledger.store.read() as reading:
        ((_, listed),) = ledger.views.unknowns(reading, ledger.log, run="", after=None, limit=10)
    shown = [(p.verdict, p.proposer, p.reason_code) for p in listed.proposals]
    assert shown == [
        ("executed", PrincipalId("reviewer-1"), "looked"),
        ("not_executed", PrincipalId("reviewer-2"), "looked"),
    ]
    assert listed.expected_version == ledger.step("run-1", "s").version
    assert said(driver.start("s")) == "UNKNOWN"
