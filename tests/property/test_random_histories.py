"""Random commands of two processes, two reviewers and a confirmer, at random times.

Whatever is sent in whatever order: no key of a write that doubles is executed twice unless the
first try had no effect, and the log that is left passes every check of the oracle.
"""

from __future__ import annotations

import secrets

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from ledger.core.answers import Execute
from ledger.core.commands import AttachEvidence, BreakLease, OpenRun
from ledger.core.ids import RunId, StepId, Tenant
from ledger.core.vocabulary import Outcome, RunStatus, Verdict
from tests.support.driving import IDEMPOTENT, NON_IDEMPOTENT, READ_ONLY, Driver, said
from tests.support.in_process import (
    ADMIN,
    CONFIRMER,
    P1,
    P2,
    REVIEWER,
    REVIEWER_2,
    RUNTIME,
    RUNTIME_2,
    House,
    LedgerInProcess,
)

RUNS = st.sampled_from(["run-1", "run-2"])
PROCESSES = st.sampled_from([0, 1])
STEPS = st.sampled_from(["a", "b", "c", "d"])
KEYS = st.sampled_from(["", "k1", "k2", "k3"])
ARGUMENTS = st.sampled_from([b"1", b"2"])
TOOLS = st.sampled_from(["send", "put", "look-up"])
CLASSES = {"send": NON_IDEMPOTENT, "put": IDEMPOTENT, "look-up": READ_ONLY}
SECONDS = st.sampled_from([0.5, 4.0, 11.0, 31.0, 70.0])


class Histories(RuleBasedStateMachine):
    """Sends what comes, and counts what was allowed to run."""

    house: House
    judged: list[int]

    def __init__(self) -> None:
        super().__init__()
        self.house.clock.reset()
        self.ledger = LedgerInProcess(self.house, Tenant(f"tenant-{secrets.token_hex(6)}"))
        self.ledger.replica()
        self.drivers = {
            (run, at): Driver(self.ledger, RunId(run), process, by, at=at)
            for run in ("run-1", "run-2")
            for at, (process, by) in enumerate(((P1, RUNTIME), (P2, RUNTIME_2)))
        }
        self.executed: dict[tuple[str, str], list[tuple[str, str, int]]] = {}
        self.without_effect: set[tuple[str, str, int]] = set()

    @rule(run=RUNS, at=PROCESSES)
    def acquire(self, run: str, at: int) -> None:
        """Opens the run if need be, and asks for its lease."""
        driver = self.drivers[(run, at)]
        driver.ask(OpenRun(driver.run))
        driver.acquire()

    @rule(run=RUNS, at=PROCESSES)
    def renew(self, run: str, at: int) -> None:
        """Renews a lease."""
        self.drivers[(run, at)].renew()

    @rule(run=RUNS, at=PROCESSES)
    def release(self, run: str, at: int) -> None:
        """Gives a lease back."""
        self.drivers[(run, at)].release()

    @rule(
        run=RUNS,
        at=PROCESSES,
        step=STEPS,
        tool=TOOLS,
        key=KEYS,
        supersedes=KEYS,
        arguments=ARGUMENTS,
        waits=st.booleans(),
    )
    def plan(
        self,
        run: str,
        at: int,
        step: str,
        tool: str,
        key: str,
        supersedes: str,
        arguments: bytes,
        waits: bool,
    ) -> None:
        """Plans a step."""
        self.drivers[(run, at)].plan(
            step,
            tool=tool,
            key=key if CLASSES[tool].is_write else "",
            supersedes=supersedes if CLASSES[tool].is_write else "",
            arguments=arguments,
            effect=CLASSES[tool],
            after=["a"] if waits and step != "a" else [],
        )

    @rule(run=RUNS, at=PROCESSES, step=STEPS, seconds=st.sampled_from([1.0, 60.0]))
    def start(self, run: str, at: int, step: str, seconds: float) -> None:
        """Asks to start a step, and judges an EXECUTE."""
        driver = self.drivers[(run, at)]
        answer = driver.start(step, operation_s=seconds)
        if not isinstance(answer, Execute):
            return
        tool = self.ledger.step(run, step).tool
        if tool == "send":
            tries = self.executed.setdefault((tool, answer.key), [])
            assert all(each in self.without_effect for each in tries)
            tries.append((run, step, answer.attempt))

    @rule(
        run=RUNS,
        at=PROCESSES,
        step=STEPS,
        attempt=st.sampled_from([1, 1, 2]),
        outcome=st.sampled_from(list(Outcome)),
    )
    def complete(self, run: str, at: int, step: str, attempt: int, outcome: Outcome) -> None:
        """Reports on an attempt."""
        driver = self.drivers[(run, at)]
        answer = driver.complete(step, outcome, attempt=attempt, result=outcome.encode())
        if said(answer) == "RECORDED" and outcome is Outcome.NO_EFFECT:
            self.without_effect.add((run, step, attempt))

    @rule(run=RUNS, at=PROCESSES, step=STEPS)
    def mark_unknown(self, run: str, at: int, step: str) -> None:
        """Marks an attempt unknown."""
        self.drivers[(run, at)].unknown(step)

    @rule(run=RUNS, at=PROCESSES, step=STEPS)
    def withdraw(self, run: str, at: int, step: str) -> None:
        """Takes a step back."""
        self.drivers[(run, at)].withdraw(step)

    @rule(
        run=RUNS,
        by=st.sampled_from([REVIEWER, REVIEWER_2, CONFIRMER, RUNTIME]),
        verdict=st.sampled_from(list(Verdict)),
        again=st.booleans(),
    )
    def decide(self, run: str, by: object, verdict: Verdict, again: bool) -> None:
        """Decides about the first step of the list, or anew about one that was decided."""
        driver = self.drivers[(run, 0)]
        if not again:
            listed = [each for each in self.ledger.unknowns() if each.startswith(f"{run}/")]
            if listed:
                driver.decide(listed[0].partition("/")[2], verdict, by=by)  # type: ignore[arg-type]
            return
        for step in self._steps(run):
            decisions = self.ledger.step(run, step).decisions
            if decisions:
                driver.decide(step, verdict, by=by, supersedes=decisions[-1].index)  # type: ignore[arg-type]
                return

    @rule(run=RUNS, step=STEPS, outcome=st.sampled_from([None, *Outcome]))
    def confirmer_tells(self, run: str, step: str, outcome: Outcome | None) -> None:
        """Attaches what a confirmer found."""
        command = AttachEvidence(RunId(run), "asked", StepId(step), 1, outcome=outcome)
        self.ledger.ask(command, by=CONFIRMER)

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        """Lets time pass."""
        self.ledger.clock.advance(seconds)

    @rule(at=PROCESSES)
    def sweep(self, at: int) -> None:
        """Sweeps on one of the servers."""
        self.ledger.sweep(at=at)

    @rule(run=RUNS, how=st.sampled_from(["cancel", "close", "break", "break", "break"]))
    def stop(self, run: str, how: str) -> None:
        """Cancels, closes or breaks."""
        driver = self.drivers[(run, 0)]
        if how == "break":
            self.ledger.ask(BreakLease(driver.run, "stuck"), by=ADMIN)
        elif how == "close":
            driver.close(RunStatus.FAILED)
        else:
            driver.cancel()

    @invariant()
    def nothing_broke(self) -> None:
        """No server stopped on a mistake of ours."""
        assert not [fault for replica in self.ledger.replicas for fault in replica.fatal]

    def _steps(self, run: str) -> list[str]:
        with self.ledger.store.read() as reading:
            steps = self.ledger.views.steps(
                reading, self.ledger.log, RunId(run), after=-1, limit=100
            )
        return [step.id for step in steps]

    def teardown(self) -> None:
        """Judges the log that was left."""
        self.house.clock.reset()
        self.ledger.close()
        self.judged.append(len(self.executed))


def _run(house: House, *, examples: int, steps: int) -> int:
    """Runs the machine; answers how many logs were judged and found lawful."""
    judged: list[int] = []
    machine = type("HistoriesHere", (Histories,), {"house": house, "judged": judged})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return len(judged)


def test_no_history_executes_a_key_twice_or_leaves_an_unlawful_log(house: House) -> None:
    assert _run(house, examples=8, steps=40) >= 8


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_long_history_executes_a_key_twice_or_leaves_an_unlawful_log(house: House) -> None:
    assert _run(house, examples=150, steps=80) >= 150
