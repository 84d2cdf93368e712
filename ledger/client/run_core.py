"""One driven run: its lease, its plan, its effects and how it ends. No I/O; flows only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.client import decode, methods, requests
from ledger.client.effect_core import EffectCore, Unrecorded
from ledger.client.errors import (
    AuditNotRecorded,
    DeadlinePassed,
    HeldByAnother,
    InvalidRequest,
    LedgerError,
    LedgerUnavailable,
    OutcomeUnknown,
    Refused,
    Violation,
)
from ledger.client.flow import Answered, Flow, Settings, answered
from ledger.client.gaps import Gaps
from ledger.client.lease_core import LeaseCore, RunOptions
from ledger.client.payloads import Content
from ledger.client.requests import Step
from ledger.client.values import (
    Appended,
    Closed,
    EvidenceAttached,
    Execute,
    Held,
    Planned,
    Refusal,
    Replay,
    ResumeState,
    ResumeStep,
    RunInfo,
    UnknownStep,
)
from ledger.client.words import Durability, EffectClass, Outcome, RunStatus
from ledger.v1 import run_service_pb2 as runs


@dataclass(frozen=True, slots=True)
class Known:
    """What this process knows of a planned step. `recorded` is false for a dropped best-effort
    plan.
    """

    version: str
    effect_class: EffectClass
    recorded: bool = True


class RunCore:
    """The state of one driven run, and the flows that change it."""

    def __init__(self, settings: Settings, options: RunOptions) -> None:
        self.settings = settings
        self.run = options.run
        self.gaps = Gaps()
        self.lease = LeaseCore(settings, options)
        self.info: RunInfo | None = None
        self.resumed: ResumeState | None = None
        self._open_request = options.open_request
        self._known: dict[str, Known] = {}
        self._unrecorded: dict[str, AuditNotRecorded] = {}

    def enter(self) -> Flow[None]:
        """Open the run (or find it), take its lease and, where it must exist, read its state."""
        if self._open_request is not None:
            opened = yield from answered(self.settings, methods.OPEN_RUN, self._open_request)
            self.info = decode.opened_of(opened.message).run
        yield from self.lease.acquire()
        if self._open_request is None:
            try:
                yield from self.resume_state()
            except LedgerError as error:
                yield from self.lease.release_quietly("state_not_read", error)
                raise

    def plan(self, steps: Sequence[Step], *, best_effort: bool) -> Flow[Planned]:
        """Plan steps, all or none. Best effort is for READ_ONLY and PROPOSE only."""
        driving = self.lease.require_driving()
        if best_effort:
            self._require_harmless(steps)
        request = requests.plan_steps(driving, steps, limits=self.settings.limits)
        policy = self.settings.best_effort if best_effort else None
        try:
            answer = yield from answered(self.settings, methods.PLAN_STEPS, request, policy=policy)
        except LedgerUnavailable:
            if not best_effort:
                raise
            self.gaps.drop(len(steps))
            self._know(steps, recorded=False)
            return Planned(None, ("",) * len(steps), self.lease.cancel_requested)
        planned = decode.planned_of(answer.message)
        self._know(steps, recorded=True)
        self.lease.note_cancel(planned.cancel_requested)
        yield from self.report_gap()
        return planned

    def withdraw(self, step: str, *, reason: str) -> Flow[Appended]:
        """Take a planned step back before any start."""
        request = requests.withdraw_step(
            self.lease.require_driving(), step, reason=reason, limits=self.settings.limits
        )
        answer = yield from answered(self.settings, methods.WITHDRAW_STEP, request)
        self.lease.note_cancel(answer.message.cancel_requested)
        yield from self.report_gap()
        return decode.withdrawn_of(answer.message)

    def attach_evidence(
        self, *, kind: str, evidence: Sequence[Content], step: str, attempt: int, outcome: Outcome
    ) -> Flow[EvidenceAttached]:
        """Attach facts to a step, or to the run where `step` is empty."""
        request = requests.attach_evidence(
            self.run,
            kind=kind,
            evidence=evidence,
            step=step,
            attempt=attempt,
            token=self.lease.require_driving().token,
            outcome=outcome,
            limits=self.settings.limits,
        )
        answer = yield from answered(self.settings, methods.ATTACH_EVIDENCE, request)
        return decode.evidence_of(answer.message)

    def start(
        self,
        step: str,
        *,
        version: str | None,
        timeout_s: float | None,
        best_effort: bool,
        nothing_sent: tuple[type[BaseException], ...],
    ) -> Flow[EffectCore]:
        """Ask to start a step; the directive decides.

        EXECUTE and REPLAY give an effect. HELD, UNKNOWN and REFUSED raise. Without an acknowledged
        EXECUTE nothing may run, best-effort reads excepted.
        """
        driving = self.lease.require_driving()
        known = self._known.get(step)
        effect = _EffectMaker(self, step, best_effort, nothing_sent)
        if best_effort:
            self._require_known_harmless(step, known)
            if known is not None and not known.recorded:
                self.gaps.drop(1)
                return effect.made(Unrecorded(), float("inf"))
        request = requests.start_step(
            driving,
            step,
            tool_version=self._version(known, version),
            timeout_s=timeout_s,
            limits=self.settings.limits,
        )
        policy = self.settings.best_effort if best_effort else None
        try:
            answer = yield from answered(self.settings, methods.START_STEP, request, policy=policy)
        except LedgerUnavailable:
            if not best_effort:
                raise
            self.gaps.drop(1)
            return effect.made(Unrecorded(), float("inf"))
        return (yield from self._directed(effect, answer))

    def resume_state(self) -> Flow[ResumeState]:
        """The run with its steps and their exact bytes, all pages."""
        driving = self.lease.require_driving()
        steps: list[ResumeStep] = []
        page_token = ""
        while True:
            request = runs.GetResumeStateRequest(
                run=self.run,
                token=driving.token,
                process=driving.process.nonce,
                page_size=self.settings.limits.page_max,
                page_token=page_token,
            )
            answer = yield from answered(self.settings, methods.GET_RESUME_STATE, request)
            steps.extend(decode.resume_step_of(step) for step in answer.message.steps)
            page_token = answer.message.next_page_token
            if not page_token:
                break
        state = ResumeState(decode.run_of(answer.message.run), tuple(steps))
        for step in steps:
            self._known[step.step] = Known(step.info.tool_version, step.info.effect_class)
        self.info = state.run
        self.resumed = state
        self.lease.note_cancel(state.run.cancel_requested)
        return state

    def close(self, status: RunStatus, *, reason: str) -> Flow[Closed]:
        """Close the run. COMPLETED is refused here while an outcome of this process is
        unrecorded.
        """
        driving = self.lease.require_driving()
        if status is RunStatus.COMPLETED:
            for unrecorded in self._unrecorded.values():
                raise unrecorded
        request = requests.close_run(
            driving, status=status, reason=reason, limits=self.settings.limits
        )
        yield from self.report_gap()
        answer = yield from answered(self.settings, methods.CLOSE_RUN, request)
        self.lease.ended()
        return decode.closed_of(answer.message)

    def stop(self, reason: str) -> Flow[Appended]:
        """Give the lease back and leave the run open, to be resumed. Started writes become
        UNKNOWN.
        """
        self.lease.require_driving()
        yield from self.report_gap()
        return (yield from self.lease.release(reason))

    def leave(self, error: BaseException | None) -> Flow[None]:
        """Close the run COMPLETED if everything is recorded; else leave it open, to be resumed.

        Only a clean end without unrecorded outcomes closes. An exception is a stop, not a failure
        of the run: the lease goes back and the run stays open. The caller re-raises `error` itself.
        """
        if self.lease.driving is None or self.lease.is_of_another_process():
            return
        if error is None:
            try:
                yield from self.close(RunStatus.COMPLETED, reason="")
            except LedgerError as fault:
                yield from self.lease.release_quietly(_stop_reason(fault), fault)
                raise
        else:
            yield from self.lease.release_quietly(_stop_reason(error), error)

    def report_gap(self) -> Flow[None]:
        """Send the count of dropped records, if there is one. It stays counted until
        acknowledged.
        """
        driving = self.lease.driving
        if driving is None:
            return
        report = self.gaps.report(run=self.run, token=driving.token)
        if report is None:
            return
        try:
            yield from answered(
                self.settings,
                methods.ATTACH_EVIDENCE,
                report,
                policy=self.settings.best_effort,
            )
        except LedgerUnavailable:
            return
        self.gaps.acknowledged(report)

    def recorded(self, step: str) -> None:
        """The ledger has acknowledged the step's report."""
        self._unrecorded.pop(step, None)

    def not_recorded(self, *, step: str, attempt: int, durability: Durability) -> AuditNotRecorded:
        """The ledger has not: the run cannot end COMPLETED while this stands."""
        unrecorded = AuditNotRecorded(
            run=self.run, step=step, attempt=attempt, durability=durability
        )
        self._unrecorded[step] = unrecorded
        return unrecorded

    def _directed(
        self, effect: _EffectMaker, answer: Answered[runs.StartStepResponse]
    ) -> Flow[EffectCore]:
        started = decode.started_of(answer.message)
        self.lease.note_cancel(started.cancel_requested)
        match started.directive:
            case Execute() as execute:
                made = effect.made(execute, answer.sent_at_s + execute.remaining_s)
                try:
                    made.require_in_time()
                except DeadlinePassed as late:
                    yield from self._not_run(made, late)
                    raise
                return made
            case Replay() as replay:
                return effect.made(replay, float("inf"))
            case Held() as held:
                raise HeldByAnother(held)
            case UnknownStep() as unknown:
                raise OutcomeUnknown(unknown)
            case Refusal() as refusal:
                raise Refused(refusal)

    def _not_run(self, made: EffectCore, late: DeadlinePassed) -> Flow[None]:
        """The body surely did not run and will not: say so, if the ledger can still be told."""
        try:
            yield from made.complete(Outcome.NO_EFFECT, policy=self.settings.leaving)
        except LedgerError as fault:
            self.recorded(made.step)
            late.add_note(f"and this was not recorded: {fault}")

    def _know(self, steps: Sequence[Step], *, recorded: bool) -> None:
        for step in steps:
            self._known[step.step] = Known(step.version, step.effect_class, recorded)

    def _version(self, known: Known | None, version: str | None) -> str:
        if version is not None:
            return version
        if known is None:
            raise InvalidRequest(
                Violation("tool_version", "is not known: plan the step here, or give version=")
            )
        return known.version

    def _require_harmless(self, steps: Sequence[Step]) -> None:
        faults = [
            Violation(
                f"steps[{n}].effect_class", "is not READ_ONLY or PROPOSE, which best effort needs"
            )
            for n, step in enumerate(steps)
            if not step.effect_class.harmless
        ]
        if faults:
            raise InvalidRequest(*faults)

    def _require_known_harmless(self, step: str, known: Known | None) -> None:
        if known is None or not known.effect_class.harmless:
            raise InvalidRequest(
                Violation(
                    "step",
                    f"{step!r} is not planned here as READ_ONLY or PROPOSE; best effort needs it",
                )
            )


@dataclass(frozen=True, slots=True)
class _EffectMaker:
    run: RunCore
    step: str
    best_effort: bool
    nothing_sent: tuple[type[BaseException], ...]

    def made(self, directive: Execute | Replay | Unrecorded, deadline_at_s: float) -> EffectCore:
        return EffectCore(
            self.run,
            step=self.step,
            directive=directive,
            deadline_at_s=deadline_at_s,
            best_effort=self.best_effort,
            nothing_sent=self.nothing_sent,
        )


def _stop_reason(error: BaseException) -> str:
    match error:
        case AuditNotRecorded():
            return "audit_not_recorded"
        case OutcomeUnknown():
            return "outcome_unknown"
        case HeldByAnother():
            return "held_by_another"
        case TimeoutError():
            return "timeout"
        case Refused():
            return f"refused:{error.reason.name.lower()}"
        case Exception():
            return "exception"
        case _:
            return "interrupted"
