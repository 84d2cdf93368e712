"""Rules, section 6, and contract, section 9: who decides what, when, and having seen what."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ledger.core.commands import (
    AttachEvidence,
    BreakLease,
    OpenRun,
    Payload,
    Reconcile,
    RequestCancel,
)
from ledger.core.ids import PrincipalId, RunId, StepId
from ledger.core.vocabulary import ActorKind, Outcome, Role, RunStatus, Verdict
from tests.support.driving import IDEMPOTENT, Driver, another, driven, opened, refusal, said
from tests.support.in_process import (
    CONFIRMER,
    P2,
    REVIEWER,
    REVIEWER_2,
    REVIEWER_3,
    LedgerInProcess,
    caller,
)

EVERYTHING = caller("person-1", ActorKind.HUMAN, *Role)
EXECUTED, NOT_EXECUTED = Verdict.EXECUTED, Verdict.NOT_EXECUTED


def _newest(driver: Driver, step: str = "s") -> int:
    return driver.ledger.step(driver.run, step).decisions[-1].index


# When


def test_not_executed_waits_for_the_operation_deadline_whoever_decides(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.left_unknown("s", operation_s=100)
    for each in (REVIEWER, CONFIRMER):
        refused = refusal(driver.decide("s", NOT_EXECUTED, by=each))
        assert (refused.reason.name, refused.may_succeed_later) == ("TOO_EARLY", True)
    ledger.clock.advance(101)
    assert said(driver.decide("s", NOT_EXECUTED)) == "ok"


def test_executed_waits_for_nothing(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.left_unknown("s", operation_s=3600)
    assert said(driver.decide("s", EXECUTED)) == "ok"


def test_not_executed_waits_for_the_latest_deadline_of_all_open_attempts(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger, ttl_s=3600)
    driver.left_unknown("s", effect=IDEMPOTENT, operation_s=500)
    driver.start("s", operation_s=5)
    driver.complete("s", Outcome.FAILED, attempt=2)
    ledger.clock.advance(20)
    assert said(driver.decide("s", NOT_EXECUTED)) == "TOO_EARLY"
    ledger.clock.advance(490)
    assert said(driver.decide("s", NOT_EXECUTED)) == "ok"


# Who

DROVE: dict[str, Callable[[Driver], object]] = {
    "acquired a lease": lambda d: d.acquire(),
    "planned": lambda d: d.plan("other"),
    "started": lambda d: d.start("planned"),
    "completed": lambda d: d.complete("started"),
    "marked unknown": lambda d: d.unknown("started"),
    "withdrew": lambda d: d.withdraw("planned"),
    "closed": lambda d: [d.unknown("started"), d.close(RunStatus.FAILED)],
}


@pytest.mark.parametrize("did", DROVE)
def test_whoever_drove_the_run_decides_nothing_in_it(ledger: LedgerInProcess, did: str) -> None:
    driver = driven(ledger)
    driver.left_unknown("s")
    driver.started("started")
    driver.plan("planned")
    person = Driver(ledger, driver.run, driver.process, EVERYTHING, driver.token)
    if did == "acquired a lease":
        driver.release()
    DROVE[did](person)
    before = ledger.types()
    assert said(driver.decide("s", by=EVERYTHING)) == "SELF_RECONCILE"
    assert ledger.types() == before
    assert said(driver.decide("s", by=REVIEWER)) == "ok"


def test_the_opener_and_the_initiator_decide_nothing_in_it(ledger: LedgerInProcess) -> None:
    opening = OpenRun(RunId("run-1"), initiator=PrincipalId(REVIEWER.principal))
    assert said(ledger.ask(opening, by=EVERYTHING)) == "ok"
    driver = Driver(ledger, RunId("run-1"))
    driver.acquire()
    driver.left_unknown("s")
    assert said(driver.decide("s", by=EVERYTHING)) == "SELF_RECONCILE"
    assert said(driver.decide("s", by=REVIEWER)) == "SELF_RECONCILE"
    assert said(driver.decide("s", by=REVIEWER_2)) == "ok"


def test_evidence_cancel_break_and_decisions_make_no_driver(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.left_unknown("s")
    driver.left_unknown("t")
    for command in (
        AttachEvidence(driver.run, "note", StepId("s")),
        RequestCancel(driver.run),
        BreakLease(driver.run, "stuck"),
    ):
        assert said(ledger.ask(command, by=EVERYTHING)) == "ok"
    assert said(driver.decide("s", by=EVERYTHING)) == "ok"
    assert said(driver.decide("t", by=EVERYTHING)) == "ok"


def test_the_role_confirm_decides_only_as_a_confirmer(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.left_unknown("s")
    person = caller("person-2", ActorKind.HUMAN, Role.CONFIRM)
    assert said(driver.decide("s", by=person)) == "ROLE_MISSING"
    assert said(driver.decide("s", by=CONFIRMER)) == "ok"


# Having seen what


def test_a_decision_names_the_newest_version_of_the_step(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.left_unknown("s")
    seen = ledger.step("run-1", "s").version
    driver.complete("s", Outcome.FAILED)
    refused = refusal(driver.decide("s", version=seen))
    assert refused.reason.name == "VERSION_MISMATCH"
    assert refused.details["version"] == str(ledger.step("run-1", "s").version)
    assert said(driver.decide("s")) == "ok"


def _evidence(outcome: Outcome | None, kind: str = "looked") -> AttachEvidence:
    return AttachEvidence(RunId("run-1"), kind, StepId("s"), 1, outcome=outcome)


def test_reviewers_and_definite_evidence_change_what_a_decider_has_to_have_seen(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.left_unknown("s")
    for by, outcome in (
        (REVIEWER, None),
        (CONFIRMER, Outcome.SUCCEEDED),
        (driver.by, Outcome.SUCCEEDED),
    ):
        seen = ledger.step("run-1", "s").version
        ledger.ask(_evidence(outcome), by=by)
        assert said(driver.decide("s", version=seen)) == "VERSION_MISMATCH"
    assert said(driver.decide("s")) == "ok"


def test_an_inconclusive_answer_of_a_confirmer_counts_for_nothing_and_is_recorded_once(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.left_unknown("s")
    seen = ledger.step("run-1", "s").version
    for kind in ("no_answer", "no_answer", "cannot_tell", "no_answer"):
        assert said(ledger.ask(_evidence(None, kind), by=CONFIRMER)) == "ok"
    assert ledger.types("run-1").count("evidence.attached") == 2
    assert said(driver.decide("s", version=seen)) == "ok"


def test_a_note_of_the_runtime_does_not_change_what_a_decider_has_to_have_seen(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.left_unknown("s")
    seen = ledger.step("run-1", "s").version
    driver.evidence("s")
    assert said(driver.decide("s", version=seen)) == "ok"


# From where


@pytest.mark.parametrize("state", ["PLANNED", "STARTED", "SUCCEEDED", "FAILED", "NO_EFFECT"])
def test_only_an_unknown_step_is_decided(ledger: LedgerInProcess, state: str) -> None:
    driver = driven(ledger)
    driver.plan("s")
    if state != "PLANNED":
        driver.start("s")
    if state not in ("PLANNED", "STARTED"):
        driver.complete("s", Outcome(state))
    assert said(driver.decide("s")) == "WRONG_STATE"
    assert said(driver.ask_to_decide("nowhere")) == "STEP_NOT_PLANNED"


def test_a_second_first_decision_is_refused(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.left_unknown("s")
    assert said(driver.decide("s")) == "ok"
    assert said(driver.decide("s", by=REVIEWER_2)) == "WRONG_STATE"


def test_a_superseding_decision_names_the_newest_and_is_made_by_somebody_else(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.left_unknown("s", operation_s=1)
    ledger.clock.advance(2)
    driver.decide("s", EXECUTED)
    first = _newest(driver)
    assert said(driver.decide("s", by=REVIEWER, supersedes=first)) == "NOT_SUPERSEDING"
    assert said(driver.decide("s", by=REVIEWER_2, supersedes=first - 1)) == "NOT_SUPERSEDING"
    assert said(driver.decide("s", NOT_EXECUTED, by=REVIEWER_2, supersedes=first)) == "ok"
    assert driver.state("s") == "RECONCILED_NOT_EXECUTED"
    second = _newest(driver)
    assert said(driver.decide("s", by=REVIEWER_3, supersedes=first)) == "NOT_SUPERSEDING"
    assert said(driver.decide("s", by=REVIEWER, supersedes=second)) == "NOT_SUPERSEDING"
    assert said(driver.decide("s", by=REVIEWER_3, supersedes=second)) == "ok"
    assert driver.state("s") == "RECONCILED_EXECUTED"


def test_a_superseding_decision_obeys_the_same_rules(ledger: LedgerInProcess) -> None:
    driver = driven(ledger, ttl_s=3600)
    driver.left_unknown("s", operation_s=600)
    driver.decide("s", EXECUTED)
    first = _newest(driver)
    by_driver = caller("runtime-1", ActorKind.HUMAN, Role.RECONCILE)
    assert said(driver.decide("s", by=by_driver, supersedes=first)) == "SELF_RECONCILE"
    assert said(driver.decide("s", NOT_EXECUTED, by=REVIEWER_2, supersedes=first)) == "TOO_EARLY"
    assert said(driver.decide("s", by=REVIEWER_2, supersedes=first, version=0)) == (
        "VERSION_MISMATCH"
    )


def test_a_decision_is_made_in_a_closed_run_as_well(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.left_unknown("s")
    driver.close(RunStatus.FAILED)
    assert ledger.unknowns() == ["run-1/s"]
    assert said(driver.decide("s")) == "ok"
    assert (driver.state("s"), ledger.unknowns()) == ("RECONCILED_EXECUTED", [])


def test_one_transaction_settles_run_step_key_and_list(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.left_unknown("s", key="k", arguments=b"{}")
    other = driven(ledger, "run-2")
    other.plan("t", key="k", arguments=b"{}")
    seen = ledger.step("run-1", "s").version
    message = [
        ledger.request(
            Reconcile(
                driver.run,
                StepId("s"),
                EXECUTED,
                "found",
                seen,
                reason=Payload(b"seen in the shop's books"),
                evidence=(Payload(b"page 1"), Payload(b"page 2")),
                result=Payload(b"rc-9"),
            ),
            by=REVIEWER,
        ),
        ledger.request(other.start_command("t")),
    ]
    words = [said(outcome.answer) for outcome in ledger.submit(*message)]  # type: ignore[union-attr]
    assert words == ["ok", "REPLAY_SUCCEEDED"]
    assert ledger.unknowns() == []
    assert ledger.step("run-1", "s").result_id


def test_decisions_of_two_reviewers_at_once_leave_one(ledger: LedgerInProcess) -> None:
    ledger.replica()
    driver = driven(ledger)
    driver.left_unknown("s")
    seen = ledger.step("run-1", "s").version
    command = Reconcile(driver.run, StepId("s"), EXECUTED, "found", seen)
    answers = ledger.submit_at_once(
        *((at, [ledger.request(command, by=by)]) for at, by in enumerate((REVIEWER, REVIEWER_2)))
    )
    words = [said(outcome.answer) for (outcome,) in answers]  # type: ignore[union-attr]
    assert sorted(words) == ["WRONG_STATE", "ok"]


# The list


def test_unknowns_list_themselves_by_class_then_age(ledger: LedgerInProcess) -> None:
    one, two = driven(ledger, "run-1", ttl_s=600), driven(ledger, "run-2", ttl_s=600)
    one.left_unknown("put", effect=IDEMPOTENT, tool="put")
    two.left_unknown("send", tool="send")
    one.left_unknown("send", tool="send")
    assert ledger.unknowns() == ["run-2/send", "run-1/send", "run-1/put"]
    one.decide("send")
    assert ledger.unknowns() == ["run-2/send", "run-1/put"]


def test_a_run_is_not_completed_while_a_step_is_unknown(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.left_unknown("s")
    assert said(driver.close(RunStatus.COMPLETED)) == "STEP_UNKNOWN"
    driver.decide("s")
    assert said(driver.close(RunStatus.COMPLETED)) == "ok"


def test_a_run_is_not_closed_while_a_step_is_started(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.started("s")
    driver.plan("t")
    for status in RunStatus:
        assert said(driver.close(status)) == "STEP_STARTED"
    driver.complete("s")
    assert said(driver.close()) == "ok"
    assert driver.state("t") == "WITHDRAWN"
    assert ledger.types("run-1")[-2:] == ["step.withdrawn", "run.closed"]


def test_a_run_that_nobody_drives_is_closed_by_its_cancel(ledger: LedgerInProcess) -> None:
    driver = opened(ledger, "run-1")
    assert said(driver.cancel()) == "ok"
    assert ledger.types("run-1") == ["run.opened", "cancel.requested", "run.closed"]
    assert said(another(driver, P2).acquire()) == "RUN_CLOSED"
