"""An entry of a type that only a later release knows: lawful, readable, and left alone (formats,
section 1)."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest
from eventsourcing.persistence import StoredEvent

from ledger.batch import random_request_id
from ledger.core.canonical import encode
from ledger.core.commands import BreakLease, SweepRun
from ledger.core.ids import RunId
from ledger.core.policy import Policy
from ledger.core.refusals import Refused
from ledger.core.run import Run
from ledger.core.run_events import LEDGER, RUN_EVENTS
from ledger.core.vocabulary import Outcome, RunStatus
from ledger.paging import Page
from ledger.store.recorder import LogRecorder
from ledger.store.rows import number
from ledger.store.tables import LEASES, RUNS
from ledger.sweep import PAGE
from ledger.vault import Vault
from ledger.views import StepsPage
from projections.mending import Mending
from tests.support.driving import IDEMPOTENT, NON_IDEMPOTENT, Driver, driven, refusal, said
from tests.support.in_process import ADMIN, LedgerInProcess
from tests.support.resuming import reader, resume

IMAGINED = "step.imagined"


def _planted(ledger: LedgerInProcess, *runs: str) -> None:
    """Chains an entry of a later type in each run, and has its rows written as a server of that
    release would: with the type named in the run's row."""
    events = []
    for run in runs:
        event = {
            "actor": LEDGER.to_json(),
            "body": {"step": "s", "imagined": 7},
            "payloads": [],
            "request": {"digest": "00" * 32, "id": random_request_id(), "part": 0},
            "type": IMAGINED,
        }
        version = ledger.run(run).version + 1
        originator = f"{ledger.log.origin}#{run}"
        events.append(StoredEvent(originator, version, IMAGINED, encode(event)))
    LogRecorder(ledger.store, ledger.log.number).insert_events(events)
    vault = Vault(ledger.house.keyring)
    Mending(ledger.store, vault.fingerprint_of, ledger.log).rebuild(lambda done, size: None)


def _in_doubt(ledger: LedgerInProcess) -> Driver:
    driver = driven(ledger)
    driver.ended("done")
    driver.left_unknown("unknown", tool="send")
    driver.started("s", tool="put", effect=IDEMPOTENT, operation_s=10)
    driver.plan("planned", tool="post")
    _planted(ledger, "run-1")
    return driver


def test_such_a_run_is_read_listed_and_verified(ledger: LedgerInProcess) -> None:
    driver = _in_doubt(ledger)
    read = reader(ledger)
    page = read.run(ledger.log, driver.run, Page(10, None))
    assert isinstance(page, StepsPage)
    assert [step.id for step in page.steps] == ["done", "unknown", "s", "planned"]
    assert page.view.run.not_understood == [IMAGINED]
    assert [
        one.run.run_id for one in read.runs(ledger.log, Page(10, None), open_only=True).runs
    ] == ["run-1"]
    assert ledger.unknowns() == ["run-1/unknown"]
    assert ledger.types("run-1")[-1] == IMAGINED


def test_whatever_drives_or_decides_in_such_a_run_is_refused_and_names_the_type(
    ledger: LedgerInProcess,
) -> None:
    driver = _in_doubt(ledger)
    ledger.replica()
    before = ledger.types()
    for driver.at in (0, 1):
        answers = [
            driver.acquire(),
            driver.start("planned"),
            driver.start("s"),
            driver.plan("new"),
            driver.withdraw("planned"),
            driver.cancel(),
            driver.release(),
            driver.close(RunStatus.FAILED),
            ledger.ask(BreakLease(driver.run, "lost"), by=ADMIN),
            driver.decide("unknown"),
            driver.propose("unknown"),
        ]
        resuming = resume(driver)
        assert isinstance(resuming, Refused)
        for refused in [*map(refusal, answers), resuming]:
            assert refused.reason.name == "WRONG_STATE"
            assert refused.details == {"types": IMAGINED}
            assert "newer release" in refused.message
    assert ledger.types() == before


def test_what_came_of_an_attempt_is_kept_as_evidence_and_settles_nothing(
    ledger: LedgerInProcess,
) -> None:
    driver = _in_doubt(ledger)
    assert said(driver.complete("s", Outcome.SUCCEEDED, result=b"1")) == "LATE"
    assert said(driver.unknown("s")) == "LATE"
    assert driver.state("s") == "STARTED"
    assert ledger.types("run-1")[-3:] == [IMAGINED, "evidence.attached", "evidence.attached"]


def test_the_sweep_leaves_such_a_run_to_the_later_release(ledger: LedgerInProcess) -> None:
    _in_doubt(ledger)
    ledger.clock.advance(3_600)
    before, rows = ledger.types(), _lease_rows(ledger)
    assert ledger.sweep() == 1
    ledger.ask(SweepRun(RunId("run-1")))
    assert ledger.types() == before
    assert _lease_rows(ledger) == rows


@pytest.mark.long
def test_more_of_them_than_a_page_keep_no_other_run_from_being_swept(
    ledger: LedgerInProcess,
) -> None:
    names = [f"left-{at:03}" for at in range(PAGE + 1)]
    for name in names:
        driven(ledger, name)
    _planted(ledger, *names)
    driven(ledger, "swept")
    ledger.clock.advance(31)
    assert ledger.sweep() == PAGE + 2
    assert ledger.types()[-1] == "lease.expired"
    assert ledger.types().count("lease.expired") == 1


def test_a_type_that_release_0_1_0_lacked_is_named_in_the_runs_row(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.left_unknown("s")
    assert _named(ledger) == 0
    ledger.replica(policy=Policy(four_eyes=frozenset({NON_IDEMPOTENT})))
    driver.at = 1
    assert said(driver.propose("s")) == "ok"
    # Release 0.1.0 takes any list here for an entry that it does not understand.
    assert _named(ledger) == ["step.reconcile_proposed"]
    assert ledger.run("run-1").not_understood == []
    assert ledger.run("run-1").later_types <= RUN_EVENTS.keys()
    assert said(driver.plan("t")) == "ok"


def test_a_row_that_says_so_without_a_name_is_not_understood_either() -> None:
    run = Run.blank("log.example/a#run-1", datetime(2026, 12, 1, tzinfo=UTC))
    values = run.dump()
    run.load([*values[:10], 1, *values[11:]])
    assert run.not_understood == ["unnamed"]


def _named(ledger: LedgerInProcess) -> object:
    with ledger.store.read() as reading:
        (row,) = reading.get(RUNS, [(ledger.tenant, "run-1")])
    return orjson.loads(bytes(row[8]))[10]  # type: ignore[arg-type]


def _lease_rows(ledger: LedgerInProcess) -> list[int]:
    with ledger.store.read() as reading:
        return [number(row[8]) for row in reading.get(LEASES, [(ledger.tenant, "run-1")])]
