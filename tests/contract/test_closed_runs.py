"""ADR 5: a closed run is decided upon with the steps that a command names, however many it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from ledger.core.answers import Answer
from ledger.core.commands import AttachEvidence, OpenRun, PlanSteps
from ledger.core.ids import StepId
from ledger.core.policy import Policy
from ledger.core.vocabulary import Outcome, RunStatus, StepState
from ledger.store.interface import Appending, Store
from tests.support.driving import IDEMPOTENT, NON_IDEMPOTENT, Driver, PlanFields, driven, said
from tests.support.in_process import REVIEWER_2, LedgerInProcess

STEPS = 500
NAMED_MAX = 2
"""The step that a command names, and the one that holds its key."""


class _CountedAppend:
    """An append of a real store that counts, by table, the rows that are read in it."""

    def __init__(self, appending: Appending, read: Counter[str]) -> None:
        self._appending = appending
        self._read = read

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._appending, name)
        return self._counted(found) if name in {"get", "get_by", "page"} else found

    def _counted(self, reading: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
        def counted(table: Any, *given: Any, **named: Any) -> Sequence[Any]:
            rows = reading(table, *given, **named)
            self._read[table.name] += len(rows)
            return rows

        return counted


class _CountedStore:
    """A real store whose appends count what they read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.rows: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def append(self, log: int) -> Iterator[Any]:
        with self._store.append(log) as appending:
            yield _CountedAppend(appending, self.rows)


def _counted(ledger: LedgerInProcess, *, policy: Policy | None = None) -> _CountedStore:
    """Starts another server, the second, on a store that counts."""
    counted = _CountedStore(ledger.house.stores[1])
    ledger.house.stores[1] = cast(Store, counted)
    ledger.replica(policy=policy)
    return counted


def _long(ledger: LedgerInProcess, *, steps: int = STEPS) -> Driver:
    """An open run: two steps of which more can be said, and `steps` that are planned."""
    driver = driven(ledger, ttl_s=600)
    driver.left_unknown("lost")
    driver.ended("vain", Outcome.NO_EFFECT, tool="charge", effect=IDEMPOTENT, key="order-1")
    many = [driver.step_plan(f"s{n}", arguments=b"{}") for n in range(steps)]
    assert said(driver.plan_all(*many)) == "ok"
    return driver


def _closed(ledger: LedgerInProcess, *, steps: int = STEPS) -> Driver:
    """The same, closed, and asked from now on through the second server."""
    driver = _long(ledger, steps=steps)
    assert said(driver.close(RunStatus.FAILED)) == "ok"
    driver.at = 1
    return driver


COMMANDS: dict[str, tuple[Callable[[Driver], Answer], str]] = {
    "AttachEvidence": (lambda it: it.evidence("lost"), "ok"),
    "AttachEvidence of the run": (lambda it: it.evidence(), "ok"),
    "CompleteStep": (lambda it: it.complete("lost"), "LATE"),
    "CompleteStep that contradicts": (lambda it: it.complete("vain"), "LATE"),
    "MarkUnknown": (lambda it: it.unknown("lost"), "LATE"),
    "ProposeDecision": (lambda it: it.propose("lost"), "ok"),
    "Reconcile": (lambda it: it.decide("vain", by=REVIEWER_2), "ok"),
    "StartStep": (lambda it: it.start("lost"), "RUN_CLOSED"),
    "PlanSteps": (lambda it: it.plan("lost"), "RUN_CLOSED"),
    "OpenRun": (lambda it: it.ask(OpenRun(it.run)), "RUN_EXISTS"),
}


def test_a_command_on_a_closed_run_reads_only_the_steps_that_it_names(
    ledger: LedgerInProcess,
) -> None:
    counted = _counted(ledger, policy=Policy(four_eyes=frozenset({NON_IDEMPOTENT})))
    driver = _closed(ledger)
    for name, (send, answer) in COMMANDS.items():
        counted.rows.clear()
        assert said(send(driver)) == answer, name
        assert counted.rows["runs"] <= 1, name
        assert counted.rows["steps"] <= NAMED_MAX, name


def test_an_open_run_is_read_whole_once_by_a_server_that_never_saw_it(
    ledger: LedgerInProcess,
) -> None:
    counted = _counted(ledger)
    driver = _long(ledger)
    driver.at = 1
    for read in (STEPS + 2, 0):
        counted.rows.clear()
        assert said(driver.evidence("lost")) == "ok"
        assert counted.rows["steps"] == read


def test_the_holder_of_a_key_in_a_closed_run_is_read_alone(ledger: LedgerInProcess) -> None:
    counted = _counted(ledger)
    first = _closed(ledger)
    assert said(first.complete("vain")) == "LATE"
    other = driven(ledger, "run-2", ttl_s=600)
    other.at = 1
    plan: PlanFields = {
        "arguments": b'{"step":"run-1/vain"}',
        "tool": "charge",
        "effect": IDEMPOTENT,
        "key": "order-1",
    }
    assert said(other.plan("again", **plan)) == "ok"
    counted.rows.clear()
    assert said(other.start("again")) == "UNKNOWN"
    assert 0 < counted.rows["steps"] <= NAMED_MAX


def test_counts_of_a_closed_run_follow_a_decision(ledger: LedgerInProcess) -> None:
    """The steps that were not read are counted on; the rows are those that the log folds to, as
    the judgement at the end of each test finds."""
    _counted(ledger)
    driver = _closed(ledger, steps=3)
    assert said(driver.decide("lost")) == "ok"
    assert ledger.run("run-1").counts == {
        StepState.NO_EFFECT: 1,
        StepState.RECONCILED_EXECUTED: 1,
        StepState.WITHDRAWN: 3,
    }


def test_commands_on_several_steps_of_a_closed_run_stand_in_one_message(
    ledger: LedgerInProcess,
) -> None:
    counted = _counted(ledger)
    driver = _closed(ledger)
    counted.rows.clear()
    notes = [AttachEvidence(driver.run, "note", StepId(step)) for step in ("lost", "s1", "none")]
    answers = driver.message(*notes, *notes)
    assert [said(each) for each in answers] == ["ok", "ok", "STEP_NOT_PLANNED"] * 2
    assert counted.rows["steps"] == NAMED_MAX


def test_a_run_that_another_server_closed_is_whole_no_longer(ledger: LedgerInProcess) -> None:
    """The second server remembers the run as open and whole; what it decides next is read anew."""
    counted = _counted(ledger)
    driver = _long(ledger)
    driver.at = 1
    assert said(driver.evidence("lost")) == "ok"
    driver.at = 0
    assert said(driver.close(RunStatus.FAILED)) == "ok"
    driver.at = 1
    for answer in ("LATE", "LATE"):
        counted.rows.clear()
        assert said(driver.complete("lost")) == answer
        assert counted.rows["steps"] == 1


def test_a_plan_repeated_after_the_run_was_closed_is_answered_as_then(
    ledger: LedgerInProcess,
) -> None:
    _counted(ledger)
    driver = driven(ledger, ttl_s=600)
    steps = tuple(driver.step_plan(step) for step in ("a", "b"))
    request = ledger.request(PlanSteps(driver.run, driver.token, driver.process, steps))
    assert said(ledger.send(request).answer) == "ok"
    assert said(driver.close()) == "ok"
    for at in (0, 1):
        assert said(ledger.send(request, at=at).answer) == "ok"
    assert ledger.types("run-1").count("step.planned") == 2
