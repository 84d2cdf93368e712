"""Generated commands of anybody about anything, each answer beside the model's.

The simulation's actors are honest; here reports contradict each other, reviewers are wrong,
request ids are used again and tokens are made up.
"""

from __future__ import annotations

import secrets

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
)

from ledger.core.commands import (
    AcquireLease,
    AllowDowngrade,
    AttachEvidence,
    BreakLease,
    Caller,
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
    Request,
    RequestCancel,
    StartStep,
    WithdrawStep,
)
from ledger.core.ids import HolderName, ProcessNonce, RunId, StepId, Tenant, ToolName, ToolVersion
from ledger.core.vocabulary import EffectClass, Outcome, RunStatus, Verdict
from tests.model.door import START_US, Door, StillHouse, caller_of
from tests.support.driving import Driver
from tests.support.in_process import (
    ADMIN,
    CANCELLER,
    CONFIRMER,
    P1,
    P2,
    REVIEWER,
    REVIEWER_2,
    RUNTIME,
    RUNTIME_2,
    LedgerInProcess,
)

RUNS = st.sampled_from(["run-1", "run-1", "run-2"])
STEPS = st.sampled_from(["a", "b", "c", "d", "e", "f"])
PROCESSES = st.sampled_from([P1, P1, P2])
DRIVERS = st.sampled_from([RUNTIME, RUNTIME, RUNTIME_2])
ANYBODY = st.sampled_from([RUNTIME, REVIEWER, REVIEWER_2, CONFIRMER, ADMIN, CANCELLER])
KEYS = st.sampled_from(["", "", "k1", "k2", "k3"])
TOOLS = st.sampled_from(["send", "send", "put", "look-up"])
CLASSES = {
    "send": EffectClass.NON_IDEMPOTENT_WRITE,
    "put": EffectClass.IDEMPOTENT_WRITE,
    "look-up": EffectClass.READ_ONLY,
}
OFF = st.sampled_from([0, 0, 0, 0, 0, 0, -1])
AT = st.integers(0, 1)
ATTEMPTS = st.sampled_from([0, 0, 0, -1, 1])
MAYBE_OUTCOME = st.sampled_from([None, *Outcome])


class AnyCommand(RuleBasedStateMachine):
    """Sends what comes."""

    house: StillHouse
    judged: list[dict[str, int]]

    def __init__(self) -> None:
        super().__init__()
        self.house.clock.reset()
        ledger = LedgerInProcess(self.house, Tenant(f"any-{secrets.token_hex(6)}"))
        ledger.replica()
        self.door = Door(ledger)
        self.last: list[Request] = []

    def _send(self, command: Command, by: Caller, at: int) -> None:
        self.last = [*self.last[-4:], self.door.ledger.request(command, by=by)]
        self.door.deliver(self.last[-1:], at=at)

    def _token(self, run: str, off: int) -> int:
        known = self.door.model.runs.get(run, {"token": 1})
        return max(1, int(known["token"]) + off)

    def _process(self, run: str, process: ProcessNonce) -> ProcessNonce:
        """Mostly the one that holds the lease."""
        holder = self.door.model.runs.get(run, {}).get("process")
        return ProcessNonce(holder) if holder and process == P1 else process

    def _attempt(self, run: str, step: str, off: int) -> tuple[int, int]:
        known = self.door.model.runs.get(run, {}).get("steps", {}).get(step)
        attempts = known["attempts"] if known else []
        number = max(1, len(attempts) + off)
        token = attempts[number - 1]["token"] if number <= len(attempts) else 1
        return number, token

    @initialize()
    def begin(self) -> None:
        """Two runs that are driven."""
        for run in ("run-1", "run-2"):
            self._drive(run)

    def _drive(self, run: str) -> None:
        """Opens the run and takes its lease, if nobody did."""
        known = self.door.model.runs.get(run)
        if known is None:
            self._send(OpenRun(RunId(run)), RUNTIME, 0)
        now_us = START_US + self.door.clock.elapsed_us
        if known is None or known["ended"] or known["expires"] <= now_us:
            self._send(AcquireLease(RunId(run), HolderName("host"), P1, 60_000), RUNTIME, 0)

    @rule(
        run=RUNS,
        step=STEPS,
        at=AT,
        tool=TOOLS,
        key=KEYS,
        over=KEYS,
        supersede=st.booleans(),
        arguments=st.sampled_from([b"1", b"1", b"1", b"2"]),
        seconds=st.sampled_from([1, 60]),
    )
    def work(
        self,
        run: str,
        step: str,
        at: int,
        tool: str,
        key: str,
        over: str,
        supersede: bool,
        arguments: bytes,
        seconds: int,
    ) -> None:
        """What a runtime does all day: has the lease, plans the step, starts it."""
        self._drive(run)
        known = self.door.model.runs[run]
        place = (RunId(run), known["token"], ProcessNonce(known["process"]))
        driver = Driver(self.door.ledger, RunId(run), place[2], RUNTIME, known["token"])
        if step not in known["steps"]:
            write = CLASSES[tool].is_write
            plan = driver.step_plan(
                step,
                tool=tool,
                effect=CLASSES[tool],
                key=key if write else "",
                supersedes=over if write and supersede and over != key else "",
                arguments=arguments,
            )
            self._send(PlanSteps(*place, (plan,)), RUNTIME, at)
        self._send(driver.start_command(step, operation_s=seconds), RUNTIME, at)

    @rule(which=st.integers(0, 99), outcome=st.sampled_from(Outcome), at=AT, marks=st.booleans())
    def report(self, which: int, outcome: Outcome, at: int, marks: bool) -> None:
        """A report on any attempt that there is, by its own token: first, again, or too late."""
        attempts = [
            (RunId(run), StepId(step["step"]), number, attempt["token"])
            for run, known in self.door.model.runs.items()
            for step in known["steps"].values()
            for number, attempt in enumerate(step["attempts"], 1)
        ]
        if attempts:
            place = attempts[which % len(attempts)]
            result = Payload(b"done") if outcome is Outcome.SUCCEEDED else None
            mark = MarkUnknown(*place, "timeout")
            self._send(mark if marks else CompleteStep(*place, outcome, result), RUNTIME, at)

    @rule(which=st.integers(0, 99), verdict=st.sampled_from(Verdict), waits=st.booleans(), at=AT)
    def settle(self, which: int, verdict: Verdict, waits: bool, at: int) -> None:
        """A decision, by somebody who made none on the step, on any that takes one."""
        found = [
            (run, step)
            for run, known in self.door.model.runs.items()
            for step in known["steps"].values()
            if step["state"] == "UNKNOWN" or step["contra"] or step["decisions"]
        ]
        if not found:
            return
        run, step = found[which % len(found)]
        if waits:
            self.door.clock.advance(61)
        made = [by for _, by in step["decisions"]]
        by = [each for each in (REVIEWER, REVIEWER_2, CONFIRMER) if each.principal not in made]
        over = step["decisions"][-1][0] if made else None
        place = (RunId(run), StepId(step["step"]), verdict, "looked", step["at"], over)
        self._send(Reconcile(*place), by[0] if by else REVIEWER, at)

    @rule(run=RUNS, by=DRIVERS, at=AT, ceiling=st.sampled_from([3, 3, 3, 2]))
    def open(self, run: str, by: Caller, at: int, ceiling: int) -> None:
        """Opens a run."""
        self._send(OpenRun(RunId(run), ceiling=list(EffectClass)[ceiling]), by, at)

    @rule(run=RUNS, process=PROCESSES, by=DRIVERS, at=AT, ttl_s=st.sampled_from([5, 30, 600]))
    def acquire(self, run: str, process: ProcessNonce, by: Caller, at: int, ttl_s: int) -> None:
        """Opens the run if need be, and asks for its lease."""
        if run not in self.door.model.runs:
            self._send(OpenRun(RunId(run)), by, at)
        self._send(AcquireLease(RunId(run), HolderName("host"), process, ttl_s * 1000), by, at)

    @rule(run=RUNS, process=PROCESSES, off=OFF, at=AT, ttl_s=st.sampled_from([5, 30, 60]))
    def renew(self, run: str, process: ProcessNonce, off: int, at: int, ttl_s: int) -> None:
        """Renews a lease."""
        token, process = self._token(run, off), self._process(run, process)
        command = RenewLease(RunId(run), token, process, ttl_s * 1000)
        self.door.renew(caller_of(self.door.ledger, RUNTIME), command, at=at)

    @rule(run=RUNS, off=OFF, at=AT)
    def release(self, run: str, off: int, at: int) -> None:
        """Gives a lease back."""
        self._send(ReleaseLease(RunId(run), self._token(run, off)), RUNTIME, at)

    @rule(
        run=RUNS,
        process=PROCESSES,
        off=OFF,
        at=AT,
        steps=st.lists(
            st.tuples(STEPS, TOOLS, KEYS, KEYS, st.sampled_from([b"1", b"1", b"2"]), st.booleans()),
            min_size=1,
            max_size=3,
        ),
        version=st.sampled_from(["1", "1", "1", "1", "2"]),
        effect=st.sampled_from([None, None, None, None, *EffectClass]),
    )
    def plan(
        self,
        run: str,
        process: ProcessNonce,
        off: int,
        at: int,
        steps: list[tuple[str, str, str, str, bytes, bool]],
        version: str,
        effect: EffectClass | None,
    ) -> None:
        """Plans steps."""
        token, process = self._token(run, off), self._process(run, process)
        driver = Driver(self.door.ledger, RunId(run), process, RUNTIME, token)
        plans = [
            driver.step_plan(
                step,
                tool=tool,
                version=version,
                key=key if CLASSES[tool].is_write else "",
                supersedes=over if over != key and CLASSES[tool].is_write else "",
                arguments=arguments,
                effect=effect or CLASSES[tool],
                after=["a"] if waits and step != "a" else [],
            )
            for step, tool, key, over, arguments, waits in steps
        ]
        self._send(PlanSteps(RunId(run), token, process, tuple(plans)), RUNTIME, at)

    @rule(
        run=RUNS,
        process=PROCESSES,
        off=OFF,
        at=AT,
        step=STEPS,
        seconds=st.sampled_from([1, 60]),
        version=st.sampled_from(["1", "1", "1", "1", "1", "1", "2"]),
    )
    def start(
        self,
        run: str,
        process: ProcessNonce,
        off: int,
        at: int,
        step: str,
        seconds: int,
        version: str,
    ) -> None:
        """Asks to start a step."""
        token, process = self._token(run, off), self._process(run, process)
        place = (RunId(run), StepId(step), token, process)
        self._send(StartStep(*place, ToolVersion(version), seconds * 1000), RUNTIME, at)

    @rule(run=RUNS, step=STEPS, number=ATTEMPTS, off=OFF, outcome=st.sampled_from(Outcome), at=AT)
    def complete(
        self, run: str, step: str, number: int, off: int, outcome: Outcome, at: int
    ) -> None:
        """Reports on an attempt; only a success has a result."""
        attempt, token = self._attempt(run, step, number)
        result = Payload(b"done") if outcome is Outcome.SUCCEEDED else None
        place = (RunId(run), StepId(step), attempt, max(1, token - off))
        self._send(CompleteStep(*place, outcome, result), RUNTIME, at)

    @rule(run=RUNS, step=STEPS, number=ATTEMPTS, off=OFF, at=AT)
    def mark_unknown(self, run: str, step: str, number: int, off: int, at: int) -> None:
        """Marks an attempt unknown."""
        attempt, token = self._attempt(run, step, number)
        command = MarkUnknown(RunId(run), StepId(step), attempt, max(1, token - off), "timeout")
        self._send(command, RUNTIME, at)

    @rule(run=RUNS, step=STEPS, process=PROCESSES, off=OFF, at=AT)
    def withdraw(self, run: str, step: str, process: ProcessNonce, off: int, at: int) -> None:
        """Takes a step back."""
        token, process = self._token(run, off), self._process(run, process)
        self._send(WithdrawStep(RunId(run), StepId(step), token, process), RUNTIME, at)

    @rule(
        run=RUNS,
        by=ANYBODY,
        verdict=st.sampled_from(Verdict),
        at=AT,
        off=OFF,
        again=st.booleans(),
        which=st.integers(0, 9),
    )
    def decide(
        self, run: str, by: Caller, verdict: Verdict, at: int, off: int, again: bool, which: int
    ) -> None:
        """Decides about a step that waits or was decided; rightly or not."""
        steps = list(self.door.model.runs.get(run, {}).get("steps", {}).values())
        apt = [s for s in steps if s["state"] == "UNKNOWN" or s["contra"] or s["decisions"]]
        if not steps:
            return
        step = (apt or steps)[which % len(apt or steps)]
        over = step["decisions"][-1][0] if step["decisions"] and again else None
        place = (RunId(run), StepId(step["step"]), verdict, "looked", max(0, step["at"] + off))
        self._send(Reconcile(*place, over), by, at)

    @rule(
        run=RUNS,
        step=st.sampled_from(["", "a", "b", "c"]),
        by=ANYBODY,
        outcome=MAYBE_OUTCOME,
        at=AT,
        attempt=AT,
    )
    def attach(
        self, run: str, step: str, by: Caller, outcome: Outcome | None, at: int, attempt: int
    ) -> None:
        """Attaches what somebody found."""
        about = attempt if step else 0
        told = outcome if step else None
        command = AttachEvidence(RunId(run), "asked", StepId(step), about, outcome=told)
        self._send(command, by, at)

    @rule(seconds=st.sampled_from([0.5, 4.0, 11.0, 31.0, 70.0]))
    def wait(self, seconds: float) -> None:
        """Lets time pass."""
        self.door.clock.advance(seconds)

    @rule(at=AT)
    def sweep(self, at: int) -> None:
        """Sweeps on one of the servers."""
        self.door.sweep(at=at)

    @rule(
        run=RUNS,
        how=st.sampled_from(["cancel", "close", *["break"] * 4]),
        at=AT,
    )
    def stop(self, run: str, how: str, at: int) -> None:
        """Cancels, closes or breaks."""
        if how != "break" and len(self.door.model.log) < 40:
            return
        if how == "break":
            self._send(BreakLease(RunId(run), "stuck"), ADMIN, at)
        elif how == "cancel":
            self._send(RequestCancel(RunId(run)), CANCELLER, at)
        else:
            place = (RunId(run), self._token(run, 0), self._process(run, P1))
            self._send(CloseRun(*place, RunStatus.COMPLETED), RUNTIME, at)

    @rule(effect=st.sampled_from(EffectClass), by=st.sampled_from([ADMIN, RUNTIME]), at=AT)
    def allow(self, effect: EffectClass, by: Caller, at: int) -> None:
        """Permits a weaker class."""
        command = AllowDowngrade(ToolName("send"), ToolVersion("2"), effect, "smaller")
        self._send(command, by, at)

    @rule(which=st.integers(0, 4), at=AT, other=st.booleans())
    def again(self, which: int, at: int, other: bool) -> None:
        """Sends an earlier request again, or other content under its id."""
        if not self.last:
            return
        request = self.last[which % len(self.last)]
        if other:
            under, command = request.id, RequestCancel(RunId("run-1"), "other-content")
            request = self.door.ledger.request(command, by=request.caller, under=under)
        self.door.deliver([request], at=at)

    @rule(before=st.booleans())
    def trouble(self, before: bool) -> None:
        """The next COMMIT fails, or its answer is lost."""
        self.house.trouble.before, self.house.trouble.after = int(before), int(not before)

    @rule(at=AT)
    def restart(self, at: int) -> None:
        """A server ends and another takes its place."""
        if self.door.restarts < 3:
            self.door.restart(at)

    def teardown(self) -> None:
        """Judges the log that was left."""
        self.house.trouble.end()
        self.door.ledger.close()
        self.judged.append(self.door.words)
