"""What waits for a decision names the one that stands, which a superseding decision takes."""

from __future__ import annotations

import orjson

from ledger.core.answers import UnknownStep
from ledger.core.refusals import Reason
from ledger.core.vocabulary import Outcome, Verdict
from ledger.store.rows import blob
from ledger.store.tables import UNKNOWNS
from projections.views import Views
from tests.support.driving import Driver, driven, refusal, said
from tests.support.in_process import CONFIRMER, REVIEWER, LedgerInProcess

EXECUTED, NOT_EXECUTED = Verdict.EXECUTED, Verdict.NOT_EXECUTED


def listed(ledger: LedgerInProcess) -> list[UnknownStep]:
    """The list of unknowns as readers are shown it."""
    with ledger.store.read() as reading:
        found = Views().unknowns(reading, ledger.log, run="", after=None, limit=10)
    return [unknown for _, unknown in found]


def contradicted(ledger: LedgerInProcess) -> Driver:
    """A step that was decided not executed, and whose runtime then reported a success."""
    driver = driven(ledger, ttl_s=600)
    driver.left_unknown("s", operation_s=5)
    ledger.clock.advance(20)
    assert said(driver.decide("s", NOT_EXECUTED)) == "ok"
    driver.complete("s", Outcome.SUCCEEDED)
    return driver


def decision_index(ledger: LedgerInProcess) -> int:
    """The index of the newest decision, as the log has it."""
    return max(entry.index for entry in ledger.entries() if entry.type == "step.reconciled")


def test_a_step_that_nobody_decided_names_no_decision(ledger: LedgerInProcess) -> None:
    driven(ledger).left_unknown("s")
    assert [unknown.decision_index for unknown in listed(ledger)] == [-1]


def test_a_contradicted_decision_is_superseded_from_what_the_list_says(
    ledger: LedgerInProcess,
) -> None:
    driver = contradicted(ledger)
    (unknown,) = listed(ledger)
    assert unknown.decision_index == decision_index(ledger)
    assert unknown.contradiction
    superseded = driver.decide("s", EXECUTED, by=CONFIRMER, supersedes=unknown.decision_index)
    assert said(superseded) == "ok"
    assert listed(ledger) == []
    newest = decision_index(ledger)
    assert ledger.step("run-1", "s").decision_index == newest > unknown.decision_index


def test_a_decision_where_one_stands_is_told_its_index(ledger: LedgerInProcess) -> None:
    driver = contradicted(ledger)
    refused = refusal(driver.decide("s", EXECUTED, by=CONFIRMER))
    assert refused.reason is Reason.WRONG_STATE
    assert refused.details["newest_decision"] == str(decision_index(ledger))
    assert f"entry {decision_index(ledger)}" in refused.message


def test_a_row_of_the_first_release_names_the_decision_all_the_same(
    ledger: LedgerInProcess,
) -> None:
    driver = contradicted(ledger)
    driver.left_unknown("t")
    now = listed(ledger)
    with ledger.store.change() as changing:
        rows = changing.page(
            UNKNOWNS, equal={"tenant": ledger.tenant}, order=["rank", "since_us"], limit=10
        )
        for row in rows:
            values = orjson.loads(blob(row[6]))
            del values["decision_index"]
            changing.upsert(UNKNOWNS, [(*row[:6], orjson.dumps(values))])
    assert listed(ledger) == now
    with ledger.store.change() as changing:
        changing.upsert(UNKNOWNS, rows)  # as this release writes them
    assert sorted(unknown.decision_index for unknown in now) == [-1, decision_index(ledger)]


def test_the_reviewer_who_decided_is_not_the_one_who_supersedes(ledger: LedgerInProcess) -> None:
    driver = contradicted(ledger)
    (unknown,) = listed(ledger)
    again = driver.decide("s", EXECUTED, by=REVIEWER, supersedes=unknown.decision_index)
    assert refusal(again).reason is Reason.NOT_SUPERSEDING
