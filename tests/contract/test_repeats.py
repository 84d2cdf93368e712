"""Rules, section 8, and contract, section 7: one request id, one content, one place in the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from ledger.core.answers import Answered
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
    Request,
    RequestCancel,
    WithdrawStep,
)
from ledger.core.ids import HolderName, RunId, StepId, SubjectId
from ledger.core.vocabulary import Outcome, RunStatus, Verdict
from ledger.failures import Failure, FailureKind
from ledger.sequencer import Outcome as Sent
from ledger.store.rows import blob
from ledger.store.tables import DATA_KEYS, PAYLOADS, Row
from tests.support.driving import Driver, another, driven, opened, said
from tests.support.in_process import (
    ADMIN,
    P2,
    REVIEWER,
    RUNTIME_2,
    LedgerInProcess,
)
from tests.support.oracle import payload_refs


def _complete(driver: Driver, **given: Payload) -> CompleteStep:
    return CompleteStep(driver.run, StepId("s"), 1, driver.token, Outcome.SUCCEEDED, **given)


def _said_all(outcomes: Sequence[Sent]) -> list[str]:
    return [said(each.answer) if isinstance(each, Answered) else str(each) for each in outcomes]


COMMANDS: dict[str, Callable[[Driver], Command]] = {
    "OpenRun": lambda d: OpenRun(RunId("run-new")),
    "ReleaseLease": lambda d: ReleaseLease(d.run, d.token, "budget"),
    "BreakLease": lambda d: BreakLease(d.run, "stuck"),
    "PlanSteps": lambda d: PlanSteps(
        d.run, d.token, d.process, (d.step_plan("new"), d.step_plan("newer"))
    ),
    "CompleteStep": lambda d: _complete(d, result=Payload(b"rc")),
    "MarkUnknown": lambda d: MarkUnknown(d.run, StepId("s"), 1, d.token, "lost", Payload(b"note")),
    "WithdrawStep": lambda d: WithdrawStep(d.run, StepId("planned"), d.token, d.process),
    "AttachEvidence": lambda d: AttachEvidence(d.run, "log", evidence=(Payload(b"1"),)),
    "RequestCancel": lambda d: RequestCancel(d.run, "enough"),
    "CloseRun": lambda d: CloseRun(d.run, d.token, d.process, RunStatus.FAILED, "gave-up"),
    "Reconcile": lambda d: Reconcile(
        d.run,
        StepId("unknown"),
        Verdict.EXECUTED,
        "found",
        d.ledger.step(d.run, "unknown").version,
        evidence=(Payload(b"1"), Payload(b"2")),
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_repeated_request_has_one_place_in_the_log_however_late_and_wherever(
    ledger: LedgerInProcess, name: str
) -> None:
    ledger.replica()
    driver = driven(ledger)
    driver.plan("planned")
    driver.left_unknown("unknown")
    if name != "CloseRun":
        driver.started("s")
    by = {"BreakLease": ADMIN, "Reconcile": REVIEWER}.get(name, driver.by)
    request = ledger.request(COMMANDS[name](driver), by=by)
    first = ledger.send(request)
    assert said(first.answer) in ("ok", "RECORDED")
    assert first.append is not None
    before = ledger.types()
    ledger.clock.advance(100_000)
    opened(ledger, "run-later")
    for at in (0, 1, 0):
        again = ledger.send(request, at=at)
        assert again.append is not None
        assert (again.append.index, again.append.leaf, again.append.entries) == (
            first.append.index,
            first.append.leaf,
            first.append.entries,
        )
        assert again.append.tree_size > first.append.index
        assert said(again.answer) == said(first.answer)
    assert ledger.types() == [*before, "run.opened"]


def test_a_request_id_with_other_content_is_refused_and_the_first_stands(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("s")
    request = ledger.request(_complete(driver, result=Payload(b'{"amount":100}')))
    ledger.send(request)
    before = ledger.types()
    changed: list[Command] = [
        CompleteStep(driver.run, StepId("s"), 1, driver.token, Outcome.FAILED),
        MarkUnknown(driver.run, StepId("s"), 1, driver.token, "timeout"),
        _complete(driver, result=Payload(b'{"amount":999}')),
        _complete(driver),
        _complete(driver, external_reference=Payload(b'{"amount":100}')),
        _complete(driver, result=Payload(b'{"amount":100}'), external_reference=Payload(b"more")),
    ]
    for command in changed:
        answered = ledger.send(ledger.request(command, under=request.id))
        assert (said(answered.answer), answered.append) == ("REQUEST_REUSED", None)
        assert "100" not in str(answered.answer)
    assert ledger.types() == before
    assert said(ledger.send(request).answer) == "RECORDED"


def test_a_plan_under_a_used_request_id_with_other_arguments_is_refused(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)

    def planning(arguments: bytes) -> PlanSteps:
        steps = (driver.step_plan("a"), driver.step_plan("b", arguments=arguments))
        return PlanSteps(driver.run, driver.token, driver.process, steps)

    request = ledger.request(planning(b"1"))
    ledger.send(request)
    other = ledger.request(planning(b"2"), under=request.id)
    assert said(ledger.send(other).answer) == "REQUEST_REUSED"
    assert said(ledger.send(request).answer) == "ok"
    assert ledger.types("run-1").count("step.planned") == 2


def test_the_same_request_id_of_another_principal_is_another_request(
    ledger: LedgerInProcess,
) -> None:
    request = ledger.request(OpenRun(RunId("run-1")))
    ledger.send(request)
    other = ledger.request(OpenRun(RunId("run-2")), by=RUNTIME_2, under=request.id)
    assert said(ledger.send(other).answer) == "ok"
    assert ledger.types() == ["run.opened", "run.opened"]


def test_an_answer_that_appended_nothing_is_decided_anew_and_binds_nothing(
    ledger: LedgerInProcess,
) -> None:
    driver = opened(ledger, "run-1")
    other = another(driver, P2)
    other.acquire()
    command = AcquireLease(driver.run, HolderName("host-1"), driver.process)
    request = ledger.request(command)
    assert said(ledger.send(request).answer) == "LEASE_HELD"
    other.release()
    assert said(ledger.send(request).answer) == "ok"


def test_repeats_within_one_batch_are_answered_alike(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.started("s")
    request = ledger.request(_complete(driver, result=Payload(b"rc")))
    changed = ledger.request(_complete(driver, result=Payload(b"other")), under=request.id)
    messages: list[tuple[int, list[Request]]] = [(0, [request]) for _ in range(4)]
    answers = ledger.submit_at_once(*messages, (0, [changed]), (0, [request]))
    words = [word for each in answers for word in _said_all(each)]
    assert words == ["RECORDED"] * 4 + ["REQUEST_REUSED", "RECORDED"]
    places = {
        (each.append.index, each.append.leaf)
        for (each,) in answers
        if isinstance(each, Answered) and each.append is not None
    }
    assert len(places) == 1


@pytest.mark.parametrize("first", ["a start", "a report"])
def test_eight_equal_requests_at_once_make_one_event(ledger: LedgerInProcess, first: str) -> None:
    ledger.replica()
    driver = driven(ledger)
    driver.plan("s")
    request = ledger.request(driver.start_command("s"))
    if first == "a report":
        ledger.send(request)
        request = ledger.request(_complete(driver, result=Payload(b"rc")))
    answers = ledger.submit_at_once(*((at % 2, [request]) for at in range(8)))
    words = sorted(word for each in answers for word in _said_all(each))
    if first == "a report":
        assert words == ["RECORDED"] * 8
    else:
        assert words == ["EXECUTE"] + ["EXECUTE_AGAIN"] * 7
    places = {
        (each.append.index, each.append.leaf)
        for (each,) in answers
        if isinstance(each, Answered) and each.append is not None
    }
    assert len(places) == 1
    assert ledger.types("run-1").count("step.started") == 1


# A message of many commands


def test_commands_of_a_message_see_what_came_before_them(ledger: LedgerInProcess) -> None:
    driver = Driver(ledger, RunId("run-1"), token=1)
    message: list[Command] = [
        OpenRun(driver.run),
        AcquireLease(driver.run, HolderName("h"), driver.process),
        PlanSteps(driver.run, 1, driver.process, (driver.step_plan("s", key="k"),)),
        driver.start_command("s"),
        _complete(driver, result=Payload(b"rc")),
        driver.start_command("s"),
        CloseRun(driver.run, 1, driver.process, RunStatus.COMPLETED),
    ]
    outcomes = ledger.submit(*(ledger.request(command) for command in message))
    assert _said_all(outcomes) == [
        "ok",
        "ok",
        "ok",
        "EXECUTE",
        "RECORDED",
        "REPLAY_SUCCEEDED",
        "ok",
    ]


def test_a_refusal_undoes_none_of_its_neighbours(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.plan("waits-for-nothing")
    message: list[Command] = [
        PlanSteps(driver.run, driver.token, driver.process, (driver.step_plan("a"),)),
        PlanSteps(driver.run, 99, driver.process, (driver.step_plan("b"),)),
        driver.start_command("nowhere"),
        driver.start_command("waits-for-nothing"),
        OpenRun(RunId("run-1"), parent=RunId("other")),
        driver.start_command("a"),
    ]
    outcomes = ledger.submit(*(ledger.request(command) for command in message))
    assert _said_all(outcomes) == [
        "ok",
        "STALE_LEASE",
        "STEP_NOT_PLANNED",
        "EXECUTE",
        "RUN_EXISTS",
        "EXECUTE",
    ]
    assert (driver.state("a"), driver.state("waits-for-nothing")) == ("STARTED", "STARTED")


def test_a_refused_command_of_one_caller_does_not_fail_the_batch_of_another(
    ledger: LedgerInProcess,
) -> None:
    drivers = [driven(ledger, f"run-{at}") for at in range(6)]
    messages = []
    for at, driver in enumerate(drivers):
        token = driver.token if at % 2 else 77
        plan = PlanSteps(driver.run, token, driver.process, (driver.step_plan("s"),))
        messages.append((0, [ledger.request(plan)]))
    words = [word for each in ledger.submit_at_once(*messages) for word in _said_all(each)]
    assert words == ["STALE_LEASE", "ok"] * 3


# Payload keys (section 9)


def _key_of(ledger: LedgerInProcess, index: int) -> str:
    return str(payload_refs(ledger.entries()[index])[0]["key"])


def test_two_replicas_that_open_the_key_of_one_run_at_once_share_it(
    ledger: LedgerInProcess,
) -> None:
    ledger.replica()
    driver = driven(ledger)
    evidence = [
        AttachEvidence(driver.run, f"log-{at}", evidence=(Payload(b"%d" % at),)) for at in range(8)
    ]
    answers = ledger.submit_at_once(
        *((at % 2, [ledger.request(command)]) for at, command in enumerate(evidence))
    )
    assert [word for each in answers for word in _said_all(each)] == ["ok"] * 8
    keys = {_key_of(ledger, index) for index in range(2, 10)}
    assert len(keys) == 1


def test_a_key_of_a_subject_serves_every_run_of_it_on_every_replica(
    ledger: LedgerInProcess,
) -> None:
    ledger.replica()
    places = []
    for at in range(4):
        run = RunId(f"run-{at}")
        message: list[Command] = [
            OpenRun(run, subject=SubjectId("person-7")),
            AttachEvidence(run, "log", evidence=(Payload(b"x"),)),
        ]
        *_, last = ledger.submit(*(ledger.request(each) for each in message), at=at % 2)
        assert isinstance(last, Answered)
        assert last.append is not None
        places.append(last.append.index)
    assert len({_key_of(ledger, place) for place in places}) == 1
    assert all(b"person-7" not in entry.raw for entry in ledger.entries())


def test_arguments_are_compared_across_data_keys(ledger: LedgerInProcess) -> None:
    one, two = driven(ledger, "run-1"), driven(ledger, "run-2")
    one.ended("s", key="k", arguments=b'{"amount":1}', subject="person-1")
    two.plan("t", key="k", arguments=b'{"amount":1}', subject="person-2")
    two.plan("u", key="k", arguments=b'{"amount":2}', subject="person-1")
    assert said(two.start("t")) == "REPLAY_SUCCEEDED"
    assert said(two.start("u")) == "KEY_CONFLICT"


def test_a_look_alike_is_found_across_data_keys(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.left_unknown("s", arguments=b"{}", subject="person-1")
    driver.plan("t", arguments=b"{}", subject="person-2")
    assert said(driver.start("t")) == "UNKNOWN"


def test_a_payload_is_sealed_anew_when_its_key_was_destroyed_meanwhile(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.evidence()

    def attach() -> str:
        command = AttachEvidence(driver.run, "log", evidence=(Payload(b"x"),))
        answered = ledger.send(ledger.request(command))
        assert answered.append is not None
        return _key_of(ledger, answered.append.index)

    first = attach()
    with ledger.store.change() as changing:
        changing.update(DATA_KEYS, {"open": 0, "destroyed_idx": 3}, equal={"key_id": first})
    second = attach()
    assert second != first
    assert attach() == second


def test_a_damaged_payload_fails_the_command_that_is_compared_with_it_and_no_other(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("s")
    report = CompleteStep(
        driver.run, StepId("s"), 1, driver.token, Outcome.SUCCEEDED, Payload(b"receipt 7")
    )
    request = ledger.request(report)
    first = ledger.send(request)
    whole = _with_last_byte_changed(ledger, "result")
    opening = ledger.request(OpenRun(RunId("run-2")))
    failed, beside = ledger.submit(request, opening)
    assert isinstance(failed, Failure)
    assert failed.kind is FailureKind.STORE_UNAVAILABLE
    assert isinstance(beside, Answered)
    assert said(beside.answer) == "ok"
    with ledger.store.change() as changing:
        changing.upsert(PAYLOADS, [whole])
    assert ledger.send(request).append.index == first.append.index  # type: ignore[union-attr]


def _with_last_byte_changed(ledger: LedgerInProcess, name: str) -> Row:
    """Changes the log's stored payload of that name; answers its row as it was."""
    with ledger.store.change() as changing:
        rows = changing.page(
            PAYLOADS, equal={"log": ledger.log.number}, order=PAYLOADS.key, limit=100
        )
        (whole,) = [row for row in rows if row[3] == name]
        sealed = blob(whole[6])
        changing.upsert(PAYLOADS, [(*whole[:6], sealed[:-1] + bytes([sealed[-1] ^ 1]))])
    return whole
