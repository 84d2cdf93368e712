"""Rules, section 1: every command, with every kind of token, in every state of its run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ledger.core.commands import (
    AcquireLease,
    AttachEvidence,
    BreakLease,
    CloseRun,
    Command,
    CompleteStep,
    MarkUnknown,
    OpenRun,
    Payload,
    PlanSteps,
    Reconcile,
    ReleaseLease,
    RenewLease,
    RequestCancel,
    StartStep,
    WithdrawStep,
)
from ledger.core.ids import HolderName, RunId, StepId, SubjectId, ToolVersion
from ledger.core.vocabulary import ActorKind, Outcome, Role, RunStatus, Verdict
from ledger.store.tables import DATA_KEYS
from tests.support.driving import Driver, another, driven, opened, said
from tests.support.in_process import (
    ADMIN,
    AUDITOR,
    CANCELLER,
    CONFIRMER,
    P1,
    P2,
    REVIEWER,
    RUNTIME,
    RUNTIME_2,
    LedgerInProcess,
    caller,
)

DRIVING = ("PlanSteps", "StartStep", "WithdrawStep", "CloseRun")


def _commands(driver: Driver) -> dict[str, Command | RenewLease]:
    run, token, process = driver.run, driver.token, driver.process
    decided = driver.ledger.step(run, "unknown").version
    return {
        "OpenRun": OpenRun(run, parent=RunId("other")),
        "AcquireLease": AcquireLease(run, HolderName("h"), P2),
        "RenewLease": RenewLease(run, token, process),
        "ReleaseLease": ReleaseLease(run, token),
        "BreakLease": BreakLease(run, "stuck"),
        "PlanSteps": PlanSteps(run, token, process, (driver.step_plan("new"),)),
        "StartStep": StartStep(run, StepId("planned"), token, process, ToolVersion("1")),
        "WithdrawStep": WithdrawStep(run, StepId("planned"), token, process),
        "CloseRun": CloseRun(run, token, process, RunStatus.FAILED),
        "CompleteStep": CompleteStep(run, StepId("started"), 1, token, Outcome.SUCCEEDED),
        "MarkUnknown": MarkUnknown(run, StepId("started"), 1, token, "timeout"),
        "AttachEvidence": AttachEvidence(run, "note", StepId("started"), 1, token),
        "RequestCancel": RequestCancel(run),
        "Reconcile": Reconcile(run, StepId("unknown"), Verdict.EXECUTED, "looked", decided),
    }


def _prepared(ledger: LedgerInProcess) -> Driver:
    driver = Driver(ledger, RunId("run-1"), token=1)
    steps = [driver.step_plan(step) for step in ("planned", "started", "unknown")]
    driver.message(
        OpenRun(driver.run),
        driver.acquire_command(),
        PlanSteps(driver.run, 1, driver.process, tuple(steps)),
        driver.start_command("started"),
        driver.start_command("unknown"),
        MarkUnknown(driver.run, StepId("unknown"), 1, 1, "timeout"),
    )
    assert (driver.state("started"), driver.state("unknown")) == ("STARTED", "UNKNOWN")
    return driver


def _ask(driver: Driver, name: str) -> str:
    command = _commands(driver)[name]
    if isinstance(command, RenewLease):
        return said(driver.ledger.renew(command, by=driver.by))
    by = {"BreakLease": ADMIN, "Reconcile": REVIEWER}.get(name, driver.by)
    return said(driver.ledger.ask(command, by=by))


LIVE = {
    "OpenRun": "RUN_EXISTS",
    "AcquireLease": "LEASE_HELD",
    "StartStep": "EXECUTE",
    "CloseRun": "STEP_STARTED",
    "CompleteStep": "RECORDED",
    "MarkUnknown": "RECORDED",
}
EXPIRED = {
    "OpenRun": "RUN_EXISTS",
    "RenewLease": "LEASE_EXPIRED",
    **dict.fromkeys(DRIVING, "LEASE_EXPIRED"),
    "CompleteStep": "RECORDED",
    "MarkUnknown": "RECORDED",
}
NEWER = {
    "OpenRun": "RUN_EXISTS",
    "AcquireLease": "ok",
    "RenewLease": "STALE_LEASE",
    "ReleaseLease": "STALE_LEASE",
    **dict.fromkeys(DRIVING, "STALE_LEASE"),
    "CompleteStep": "STALE_LEASE",
    "MarkUnknown": "RECORDED",
}
CLOSED = {
    "OpenRun": "RUN_EXISTS",
    **dict.fromkeys(
        ("AcquireLease", "RenewLease", "ReleaseLease", "BreakLease", "RequestCancel", *DRIVING),
        "RUN_CLOSED",
    ),
    "CompleteStep": "LATE",
    "MarkUnknown": "LATE",
}
NAMES = (
    "OpenRun",
    "AcquireLease",
    "RenewLease",
    "ReleaseLease",
    "BreakLease",
    *DRIVING,
    "CompleteStep",
    "MarkUnknown",
    "AttachEvidence",
    "RequestCancel",
    "Reconcile",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_command_under_the_live_lease_is_answered_as_the_table_says(
    ledger: LedgerInProcess, name: str
) -> None:
    assert _ask(_prepared(ledger), name) == LIVE.get(name, "ok")


@pytest.mark.parametrize("name", NAMES)
def test_a_command_under_a_lease_that_merely_expired_is_answered_as_the_table_says(
    ledger: LedgerInProcess, name: str
) -> None:
    driver = _prepared(ledger)
    ledger.clock.advance(30.1)
    assert _ask(driver, name) == EXPIRED.get(name, "ok")


@pytest.mark.parametrize("name", NAMES)
def test_a_command_under_an_older_token_is_answered_as_the_table_says(
    ledger: LedgerInProcess, name: str
) -> None:
    driver = _prepared(ledger)
    ledger.clock.advance(30.1)
    assert said(another(driver, P2).acquire()) == "ok"
    assert _ask(driver, name) == NEWER.get(name, "ok")


@pytest.mark.parametrize("name", NAMES)
def test_a_command_on_a_closed_run_is_answered_as_the_table_says(
    ledger: LedgerInProcess, name: str
) -> None:
    driver = _prepared(ledger)
    driver.unknown("started")
    assert said(driver.close(RunStatus.FAILED)) == "ok"
    assert _ask(driver, name) == CLOSED.get(name, "ok")


ALLOWED = {
    "BreakLease": (ADMIN,),
    "AttachEvidence": (RUNTIME_2, REVIEWER, CONFIRMER),
    "RequestCancel": (RUNTIME_2, CANCELLER),
    "Reconcile": (REVIEWER, CONFIRMER),
}
EVERYBODY = (RUNTIME_2, REVIEWER, CONFIRMER, ADMIN, CANCELLER, AUDITOR)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "RenewLease"])
def test_a_command_is_refused_to_every_principal_without_its_role(
    ledger: LedgerInProcess, name: str
) -> None:
    driver = _prepared(ledger)
    before = ledger.types()
    allowed = ALLOWED.get(name, (RUNTIME_2,))
    command = _commands(driver)[name]
    assert not isinstance(command, RenewLease)
    for each in EVERYBODY:
        if each not in allowed:
            assert said(ledger.ask(command, by=each)) == "ROLE_MISSING"
    assert ledger.types() == before
    assert said(ledger.ask(command, by=allowed[-1])) == LIVE.get(name, "ok")


def test_the_role_that_allowed_a_command_stands_in_its_entry(ledger: LedgerInProcess) -> None:
    driver = _prepared(ledger)
    ledger.ask(AttachEvidence(driver.run, "note"), by=CONFIRMER)
    ledger.ask(RequestCancel(driver.run), by=CANCELLER)
    ledger.ask(BreakLease(driver.run, "stuck"), by=ADMIN)
    roles = [(entry.type, entry.event["actor"]) for entry in ledger.entries("run-1")]
    shown = {kind: actor for kind, actor in roles if isinstance(actor, dict)}
    assert shown["run.opened"]["role"] == "drive"
    assert shown["evidence.attached"]["role"] == "confirm"
    assert shown["cancel.requested"]["role"] == "cancel"
    assert shown["lease.broken"]["role"] == "admin"
    assert shown["run.closed"] == {
        "auth": "internal",
        "id": "_ledger",
        "kind": "system",
        "role": "system",
    }


def test_a_runtime_that_was_given_the_role_still_decides_nothing(ledger: LedgerInProcess) -> None:
    driver = _prepared(ledger)
    machine = caller("runtime-9", ActorKind.RUNTIME, Role.RECONCILE, Role.CONFIRM)
    assert said(driver.decide("unknown", by=machine)) == "ROLE_MISSING"


def test_an_open_of_an_existing_run_with_equal_content_writes_nothing(
    ledger: LedgerInProcess,
) -> None:
    opening = OpenRun(RunId("run-1"), labels=(("a", "1"), ("b", "2")))
    assert said(ledger.ask(opening)) == "ok"
    assert said(ledger.ask(opening, by=RUNTIME_2)) == "ok"
    other = OpenRun(RunId("run-1"), labels=(("a", "1"),))
    assert said(ledger.ask(other)) == "RUN_EXISTS"
    assert ledger.types() == ["run.opened"]


def test_an_open_with_another_subject_is_other_content(ledger: LedgerInProcess) -> None:
    assert said(ledger.ask(OpenRun(RunId("run-1"), subject=SubjectId("person-7")))) == "ok"
    assert said(ledger.ask(OpenRun(RunId("run-1"), subject=SubjectId("person-7")))) == "ok"
    assert said(ledger.ask(OpenRun(RunId("run-1"), subject=SubjectId("person-8")))) == "RUN_EXISTS"
    assert said(ledger.ask(OpenRun(RunId("run-1")))) == "RUN_EXISTS"


def test_any_driver_of_the_tenant_may_drive_a_run_that_another_opened(
    ledger: LedgerInProcess,
) -> None:
    driver = opened(ledger, "run-1", by=RUNTIME)
    other = another(driver, P1, by=RUNTIME_2)
    assert said(other.acquire()) == "ok"
    other.ended("s")
    assert other.state("s") == "SUCCEEDED"


def test_a_closed_run_has_no_lease_entry_after_its_last(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    assert said(driver.close()) == "ok"
    ledger.clock.advance(3600)
    ledger.sweep()
    for refused in (driver.acquire, driver.release):
        assert said(refused()) == "RUN_CLOSED"
    assert ledger.types("run-1") == ["run.opened", "lease.acquired", "run.closed"]


@pytest.mark.parametrize("missing", [lambda d: d.acquire(), lambda d: d.plan("s")])
def test_a_command_on_a_run_that_does_not_exist_is_refused(
    ledger: LedgerInProcess, missing: Callable[[Driver], object]
) -> None:
    driver = Driver(ledger, RunId("nowhere"))
    assert said(missing(driver)) == "RUN_NOT_FOUND"  # type: ignore[arg-type]
    assert ledger.types() == []


def test_what_is_refused_before_it_is_decided_leaves_no_data_key(ledger: LedgerInProcess) -> None:
    nobody = caller("auditor-9", ActorKind.HUMAN, Role.AUDIT)
    evidence = AttachEvidence(RunId("not-there"), "note", evidence=(Payload(b"facts"),))
    assert said(ledger.ask(evidence, by=nobody)) == "ROLE_MISSING"
    assert said(ledger.ask(evidence)) == "RUN_NOT_FOUND"
    with ledger.store.read() as reading:
        owner = ("run:not-there", 1)
        assert not reading.get_by(
            DATA_KEYS, ("tenant", "owner", "open"), [(ledger.log.tenant, *owner)]
        )
