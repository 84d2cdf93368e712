"""A runtime in a few words: opens a run, holds its lease, plans, starts and reports.

Each call sends one real request under a fresh id and gives back the answer. `said` puts an answer
into one word, so that a table of a test can name it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack, assert_never

from ledger.core import answers
from ledger.core.answers import (
    Answer,
    Answered,
    Execute,
    LeaseGranted,
    OutcomeUnknown,
    StartRefused,
)
from ledger.core.commands import (
    AcquireLease,
    AttachEvidence,
    Caller,
    CloseRun,
    Command,
    CompleteStep,
    MarkUnknown,
    OpenRun,
    Payload,
    PlanSteps,
    ProposeDecision,
    Reconcile,
    ReleaseLease,
    RenewLease,
    RequestCancel,
    StartStep,
    StepPlan,
    WithdrawStep,
)
from ledger.core.ids import (
    HolderName,
    Key,
    ProcessNonce,
    RunId,
    StepId,
    SubjectId,
    ToolName,
    ToolVersion,
    derived_key,
    given_key,
    stands_as_given,
)
from ledger.core.refusals import Refused
from ledger.core.vocabulary import EffectClass, Outcome, RunStatus, Verdict
from tests.support.in_process import P1, REVIEWER, RUNTIME, LedgerInProcess

READ_ONLY = EffectClass.READ_ONLY
PROPOSE = EffectClass.PROPOSE
IDEMPOTENT = EffectClass.IDEMPOTENT_WRITE
NON_IDEMPOTENT = EffectClass.NON_IDEMPOTENT_WRITE


def said(answer: Answer) -> str:
    """An answer in one word: a directive, a reason, a disposition, or `ok`."""
    match answer:
        case Execute(replayed=replayed):
            return "EXECUTE_AGAIN" if replayed else "EXECUTE"
        case answers.Replay(outcome=outcome):
            return f"REPLAY_{outcome}"
        case answers.Held():
            return "HELD"
        case OutcomeUnknown():
            return "UNKNOWN"
        case StartRefused(refused=refused):
            return refused.reason.name
        case Refused(reason=reason):
            return reason.name
        case answers.Completed(disposition=word) | answers.Marked(disposition=word):
            return word
        case (
            answers.RunOpened()
            | LeaseGranted()
            | answers.LeaseEnded()
            | answers.Planned()
            | answers.Withdrawn()
            | answers.EvidenceAttached()
            | answers.CancelRequested()
            | answers.RunClosed()
            | answers.Reconciled()
            | answers.DecisionProposed()
            | answers.DowngradeAllowed()
            | answers.Swept()
        ):
            return "ok"
    assert_never(answer)


def refusal(answer: Answer) -> Refused:
    """The refusal in an answer."""
    if isinstance(answer, StartRefused):
        return answer.refused
    assert isinstance(answer, Refused), answer
    return answer


class PlanFields(TypedDict, total=False):
    """What may be said of a step that is planned. `key` are the caller's own bytes."""

    tool: str
    version: str
    arguments: bytes
    effect: EffectClass | None
    key: str | bytes
    after: Sequence[str]
    supersedes: str
    subject: str


@dataclass
class Driver:
    """One process that drives one run. `token` is that of the lease it last acquired."""

    ledger: LedgerInProcess
    run: RunId
    process: ProcessNonce = P1
    by: Caller = RUNTIME
    token: int = 0
    at: int = 0

    def ask(self, command: Command) -> Answer:
        """The answer to a command sent by this runtime."""
        return self.ledger.ask(command, by=self.by, at=self.at)

    def message(self, *commands: Command) -> list[Answer]:
        """The answers to commands sent in one message by this runtime."""
        requests = [self.ledger.request(command, by=self.by) for command in commands]
        outcomes = self.ledger.submit(*requests, at=self.at)
        return [each.answer for each in outcomes if isinstance(each, Answered)]

    def acquire_command(self, *, ttl_s: float = 30) -> AcquireLease:
        """The command that asks for the lease."""
        return AcquireLease(self.run, HolderName("host-1"), self.process, round(ttl_s * 1000))

    def acquire(self, *, ttl_s: float = 30) -> Answer:
        """Asks for the lease and keeps its token if it is given."""
        answer = self.ask(self.acquire_command(ttl_s=ttl_s))
        if isinstance(answer, LeaseGranted):
            self.token = answer.token
        return answer

    def renew(self, *, ttl_s: float = 30) -> Answer:
        """Renews the lease."""
        command = RenewLease(self.run, self.token, self.process, round(ttl_s * 1000))
        return self.ledger.renew(command, by=self.by, at=self.at)

    def release(self) -> Answer:
        """Gives the lease back."""
        return self.ask(ReleaseLease(self.run, self.token))

    def step_plan(self, step: str, **fields: Unpack[PlanFields]) -> StepPlan:
        """A step to plan; without arguments each step has arguments of its own, without a key the
        derived one."""
        effect, key = fields.get("effect"), fields.get("key", "")
        given = key.encode() if isinstance(key, str) else key
        entry_key, raw = Key(""), b""
        if effect is None or effect.is_write:
            if not given:
                tenant = self.ledger.tenant
                entry_key = derived_key(tenant=tenant, run=self.run, step=StepId(step))
            else:
                entry_key = given_key(given, secret=self.ledger.log.key_index_secret)
                raw = b"" if stands_as_given(given) else given
        own = f'{{"step":"{self.run}/{step}"}}'.encode()
        subject = SubjectId(fields.get("subject", ""))
        return StepPlan(
            StepId(step),
            ToolName(fields.get("tool", "refund")),
            ToolVersion(fields.get("version", "1")),
            Payload(fields.get("arguments", own), "application/json", subject),
            effect,
            entry_key,
            raw,
            tuple(StepId(each) for each in fields.get("after", ())),
            Key(fields.get("supersedes", "")),
        )

    def plan_all(self, *steps: StepPlan) -> Answer:
        """Plans several steps in one command."""
        return self.ask(PlanSteps(self.run, self.token, self.process, steps))

    def plan(self, step: str, **fields: Unpack[PlanFields]) -> Answer:
        """Plans one step."""
        return self.plan_all(self.step_plan(step, **fields))

    def start_command(self, step: str, *, version: str = "1", operation_s: float = 60) -> StartStep:
        """The command that asks to start a step."""
        return StartStep(
            self.run,
            StepId(step),
            self.token,
            self.process,
            ToolVersion(version),
            round(operation_s * 1000),
        )

    def start(self, step: str, *, version: str = "1", operation_s: float = 60) -> Answer:
        """Asks to start a step."""
        return self.ask(self.start_command(step, version=version, operation_s=operation_s))

    def complete(
        self,
        step: str,
        outcome: Outcome = Outcome.SUCCEEDED,
        *,
        result: bytes | None = None,
        attempt: int = 1,
        token: int = 0,
    ) -> Answer:
        """Reports what came of an attempt."""
        given = None if result is None else Payload(result)
        return self.ask(
            CompleteStep(self.run, StepId(step), attempt, token or self.token, outcome, given)
        )

    def unknown(
        self, step: str, *, attempt: int = 1, token: int = 0, cause: str = "timeout"
    ) -> Answer:
        """Reports that nobody can say what came of an attempt."""
        return self.ask(MarkUnknown(self.run, StepId(step), attempt, token or self.token, cause))

    def withdraw(self, step: str) -> Answer:
        """Takes a planned step back."""
        return self.ask(WithdrawStep(self.run, StepId(step), self.token, self.process))

    def evidence(self, step: str = "", *, kind: str = "note", attempt: int = 0) -> Answer:
        """Attaches facts."""
        return self.ask(AttachEvidence(self.run, kind, StepId(step), attempt))

    def cancel(self) -> Answer:
        """Asks the run to stop."""
        return self.ask(RequestCancel(self.run))

    def close(self, status: RunStatus = RunStatus.COMPLETED) -> Answer:
        """Closes the run."""
        return self.ask(CloseRun(self.run, self.token, self.process, status))

    # What several tests begin with

    def started(
        self, step: str, *, operation_s: float = 60, **fields: Unpack[PlanFields]
    ) -> Execute:
        """Plans and starts a step, in one message."""
        return self._started_and(step, operation_s, fields)

    def ended(
        self,
        step: str,
        outcome: Outcome = Outcome.SUCCEEDED,
        **fields: Unpack[PlanFields],
    ) -> None:
        """Plans, starts and completes a step, in one message."""
        self._started_and(
            step, 60, fields, CompleteStep(self.run, StepId(step), 1, self.token, outcome)
        )

    def left_unknown(
        self, step: str, *, operation_s: float = 60, **fields: Unpack[PlanFields]
    ) -> None:
        """Plans and starts a step and marks it unknown, in one message."""
        self._started_and(
            step, operation_s, fields, MarkUnknown(self.run, StepId(step), 1, self.token, "timeout")
        )

    def _started_and(
        self, step: str, operation_s: float, fields: PlanFields, *reports: Command
    ) -> Execute:
        plan = PlanSteps(self.run, self.token, self.process, (self.step_plan(step, **fields),))
        start = self.start_command(
            step, version=fields.get("version", "1"), operation_s=operation_s
        )
        planned, execute, *reported = self.message(plan, start, *reports)
        assert said(planned) == "ok", planned
        assert isinstance(execute, Execute), execute
        assert [said(answer) for answer in reported] == ["RECORDED"] * len(reports)
        return execute

    def abandoned(self, step: str, **fields: Unpack[PlanFields]) -> None:
        """Lets a reviewer decide that an unknown step was not executed."""
        self.left_unknown(step, operation_s=1, **fields)
        self.ledger.clock.advance(1.1)
        assert said(self.decide(step, Verdict.NOT_EXECUTED)) == "ok"

    def decide(
        self,
        step: str,
        verdict: Verdict = Verdict.EXECUTED,
        *,
        by: Caller = REVIEWER,
        version: int | None = None,
        supersedes: int | None = None,
        result: bytes | None = None,
        proposal: int | None = None,
    ) -> Answer:
        """Lets somebody decide, having seen the newest version of the step unless one is named."""
        seen = self.ledger.step(self.run, step).version if version is None else version
        given = None if result is None else Payload(result)
        return self.ledger.ask(
            Reconcile(
                self.run,
                StepId(step),
                verdict,
                "looked",
                seen,
                supersedes,
                None,
                (),
                given,
                proposal,
            ),
            by=by,
            at=self.at,
        )

    def propose(
        self,
        step: str,
        verdict: Verdict = Verdict.EXECUTED,
        *,
        by: Caller = REVIEWER,
        supersedes: int | None = None,
    ) -> Answer:
        """Lets somebody propose a decision, having seen the newest version of the step."""
        seen = self.ledger.step(self.run, step).version
        command = ProposeDecision(self.run, StepId(step), verdict, "looked", seen, supersedes)
        return self.ledger.ask(command, by=by, at=self.at)

    def ask_to_decide(self, step: str, *, by: Caller = REVIEWER) -> Answer:
        """Lets somebody decide about a step that may not exist."""
        return self.ledger.ask(
            Reconcile(self.run, StepId(step), Verdict.EXECUTED, "looked", 0), by=by
        )

    def state(self, step: str) -> str:
        """Where a step stands."""
        return self.ledger.step(self.run, step).state.value


def opened(ledger: LedgerInProcess, run: str, *, by: Caller = RUNTIME) -> Driver:
    """A run that was opened and that nobody drives yet."""
    driver = Driver(ledger, RunId(run), by=by)
    assert said(driver.ask(OpenRun(driver.run))) == "ok"
    return driver


def driven(
    ledger: LedgerInProcess, run: str = "run-1", *, by: Caller = RUNTIME, ttl_s: float = 30
) -> Driver:
    """A run that was opened and is driven."""
    driver = Driver(ledger, RunId(run), by=by)
    opening, granted = driver.message(OpenRun(driver.run), driver.acquire_command(ttl_s=ttl_s))
    assert said(opening) == "ok"
    assert isinstance(granted, LeaseGranted), granted
    driver.token = granted.token
    return driver


def another(driver: Driver, process: ProcessNonce, *, by: Caller | None = None) -> Driver:
    """Another process on the same run, without a lease."""
    return Driver(driver.ledger, driver.run, process, by or driver.by)
