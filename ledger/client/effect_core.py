"""One attempt of a step: what was permitted, what was reported, and what to record on leaving.

An attempt has one report. It is made once and, unacknowledged, may only be sent again as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ledger.client import decode, methods, requests
from ledger.client.errors import (
    AlreadyReported,
    AuditNotRecorded,
    DeadlinePassed,
    DefinitelyFailed,
    InvalidRequest,
    LedgerError,
    LedgerUnavailable,
    NotExecuting,
    NothingSent,
    OutcomeNotReported,
    OutcomeUnknown,
    ReportedLate,
    ResultNotStorable,
    ResultUnavailable,
)
from ledger.client.flow import Flow, answered
from ledger.client.payloads import ABSENT, Absent, Content, error_note, omitted
from ledger.client.requests import Attempt
from ledger.client.retry import RetryPolicy
from ledger.client.values import Execute, Json, Replay, Report, UnknownStep
from ledger.client.words import Disposition, Durability, Outcome, StepState
from ledger.v1 import run_service_pb2 as runs

if TYPE_CHECKING:
    from ledger.client.run_core import RunCore

_SETTLING = (Disposition.RECORDED, Disposition.ALREADY_RECORDED)


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """A best-effort read whose start the ledger did not acknowledge: it runs, and is counted."""


@dataclass(frozen=True, slots=True)
class Claim:
    """An outcome that the body claimed, whose result could not be stored."""

    outcome: Outcome
    result: object
    fault: InvalidRequest


class EffectCore:
    """The state of one attempt, and the flows that report it."""

    def __init__(
        self,
        run: RunCore,
        *,
        step: str,
        directive: Execute | Replay | Unrecorded,
        deadline_at_s: float,
        best_effort: bool,
        nothing_sent: tuple[type[BaseException], ...],
    ) -> None:
        self.run = run
        self.step = step
        self.directive = directive
        self.deadline_at_s = deadline_at_s
        self.report: Report | None = None
        self._best_effort = best_effort
        self._nothing_sent: tuple[type[BaseException], ...] = (NothingSent, *nothing_sent)
        self._request: runs.CompleteStepRequest | runs.MarkUnknownRequest | None = None
        self._claim: Claim | None = None
        self._gave_up = False

    @property
    def executing(self) -> bool:
        """Whether the tool may run."""
        return not isinstance(self.directive, Replay)

    @property
    def reported(self) -> bool:
        """Whether a report was made, acknowledged or not."""
        return self._request is not None or self.report is not None

    @property
    def remaining_s(self) -> float:
        """Seconds until the operation deadline on our own clock; negative once past."""
        return self.deadline_at_s - self.run.settings.clock()

    def require_executing(self) -> Execute:
        """The permission. Raises `NotExecuting`, so that a body without a guard stops at its
        key.
        """
        if isinstance(self.directive, Execute):
            return self.directive
        replay = self.directive if isinstance(self.directive, Replay) else None
        raise NotExecuting(replay)

    def require_in_time(self) -> None:
        """Raise `DeadlinePassed` if the operation deadline is past: to be called right before
        the tool.
        """
        if isinstance(self.directive, Execute) and self.remaining_s <= 0:
            raise DeadlinePassed(run=self.run.run, step=self.step)

    def replayed_value(self) -> Json:
        """The stored result of a settled step.

        Raises `DefinitelyFailed` where it settled as failed, `ResultUnavailable` where its result
        is not there.
        """
        if not isinstance(self.directive, Replay):
            raise AlreadyReported(f"step {self.step!r} is being executed, not replayed")
        replay = self.directive
        if replay.outcome is Outcome.FAILED:
            stored = replay.result.json() if replay.result.present else None
            raise DefinitelyFailed(f"step {replay.step!r} failed before", result=stored)
        if not replay.result.present:
            raise ResultUnavailable(replay)
        return replay.result.json()

    def complete(
        self,
        outcome: Outcome,
        *,
        result: Content | Absent = ABSENT,
        external_reference: Content | Absent = ABSENT,
        policy: RetryPolicy | None = None,
    ) -> Flow[Report]:
        """Report an outcome. Raises as `_send` does, and `ResultNotStorable`."""
        attempt = self._attempt_to_report()
        if attempt is None:
            return self._drop()
        try:
            request = requests.complete_step(
                attempt,
                outcome=outcome,
                result=result,
                external_reference=external_reference,
                limits=self.run.settings.limits,
            )
        except InvalidRequest as fault:
            self._claim = Claim(outcome, result, fault)
            raise ResultNotStorable(*fault.violations) from None
        return self._send(request, claim=(outcome, result), policy=policy)

    def mark_unknown(
        self, cause: str, *, note: Content | Absent = ABSENT, policy: RetryPolicy | None = None
    ) -> Flow[Report]:
        """Report that nobody can say what came of it."""
        attempt = self._attempt_to_report()
        if attempt is None:
            return self._drop()
        request = requests.mark_unknown(
            attempt, cause=cause, note=note, limits=self.run.settings.limits
        )
        return self._send(request, claim=None, policy=policy)

    def resend(self) -> Flow[Report]:
        """Send the unacknowledged report again: the very same bytes."""
        if self._request is None:
            raise AlreadyReported(f"there is no report of step {self.step!r} to send again")
        return self._send(self._request, claim=None, policy=None)

    def leave(self, error: BaseException | None) -> Flow[None]:
        """Record what leaving the body proves. The caller re-raises `error` itself."""
        if not self.executing:
            return
        if self.reported:
            yield from self._leave_interrupted_report(error)
            return
        policy = (
            None if error is None or isinstance(error, Exception) else self.run.settings.leaving
        )
        if self._claim is not None:
            yield from self._leave_with_claim(self._claim, error, policy)
        elif error is None:
            yield from self._leave_unproven(OutcomeNotReported(run=self.run.run, step=self.step))
            raise OutcomeNotReported(run=self.run.run, step=self.step)
        elif isinstance(error, self._nothing_sent):
            yield from self.complete(Outcome.NO_EFFECT, policy=policy)
        elif isinstance(error, DefinitelyFailed):
            yield from self._leave_failed(error, policy)
        else:
            yield from self._leave_unproven(error, policy)

    def _leave_interrupted_report(self, error: BaseException | None) -> Flow[None]:
        """A report that an interrupt cut off is sent once more, shortly; `error` stays what is
        raised.
        """
        if self.report is not None or self._gave_up or self._request is None or error is None:
            return
        try:
            yield from self._send(self._request, claim=None, policy=self.run.settings.leaving)
        except LedgerError as fault:
            error.add_note(f"and this was not recorded: {fault}")

    def _leave_with_claim(
        self, claim: Claim, error: BaseException | None, policy: RetryPolicy | None
    ) -> Flow[None]:
        marker = omitted(claim.result, fault=claim.fault.violations[0])
        yield from self.complete(claim.outcome, result=marker, policy=policy)
        if error is None:
            raise ResultNotStorable(*claim.fault.violations)

    def _leave_failed(self, error: DefinitelyFailed, policy: RetryPolicy | None) -> Flow[None]:
        result: Any = ABSENT if error.result is None else error.result
        try:
            yield from self.complete(Outcome.FAILED, result=result, policy=policy)
        except ResultNotStorable as fault:
            marker = omitted(result, fault=fault.violations[0])
            yield from self.complete(Outcome.FAILED, result=marker, policy=policy)

    def _leave_unproven(
        self, error: BaseException, policy: RetryPolicy | None = None
    ) -> Flow[None]:
        """A read is over and may be started again; a write is unknown. `error` stays what is
        raised.
        """
        note = error_note(error)
        try:
            if isinstance(self.directive, Execute) and self.directive.key:
                cause = "timeout" if isinstance(error, TimeoutError) else "exception"
                if isinstance(error, OutcomeNotReported):
                    cause = "not_reported"
                yield from self.mark_unknown(cause, note=note, policy=policy)
            else:
                yield from self.complete(Outcome.FAILED, result=note, policy=policy)
        except LedgerError as fault:
            error.add_note(f"and this was not recorded: {fault}")

    def _attempt_to_report(self) -> Attempt | None:
        """The attempt; None for a best-effort read that the ledger does not know of."""
        if self.reported:
            raise AlreadyReported(
                f"the outcome of step {self.step!r} was reported before. An attempt has one "
                "report; resend() sends it again if it was not acknowledged."
            )
        if isinstance(self.directive, Unrecorded):
            return None
        execute = self.require_executing()
        self.run.lease.require_own_process()
        return Attempt(self.run.run, self.step, execute.attempt, execute.token)

    def _drop(self) -> Flow[Report]:
        yield from ()
        self.run.gaps.drop(1)
        self.report = Report(
            append=None,
            disposition=Disposition.UNSPECIFIED,
            state=StepState.UNSPECIFIED,
            evidence_recorded=False,
            contradiction=False,
            cancel_requested=False,
        )
        return self.report

    def _send(
        self,
        request: runs.CompleteStepRequest | runs.MarkUnknownRequest,
        *,
        claim: tuple[Outcome, object] | None,
        policy: RetryPolicy | None,
    ) -> Flow[Report]:
        """Send a report and judge its answer.

        Raises `AuditNotRecorded` where it is not acknowledged, `ReportedLate` where it was kept as
        evidence only, `OutcomeUnknown` where an earlier attempt leaves the step unknown, and
        `ResultNotStorable` where this server's limits are lower than ours.
        """
        self._request = request
        if self._best_effort and policy is None:
            policy = self.run.settings.best_effort
        try:
            report = yield from self._acknowledged(request, policy)
        except InvalidRequest as fault:
            if claim is None:
                raise self._not_recorded(Durability.NOT_COMMITTED) from fault
            self._request = None
            self._claim = Claim(*claim, fault)
            raise ResultNotStorable(*fault.violations) from fault
        except LedgerUnavailable as error:
            if self._best_effort:
                return (yield from self._drop())
            raise self._not_recorded(error.durability) from error
        except LedgerError as error:
            raise self._not_recorded(Durability.NOT_COMMITTED) from error
        self.report = report
        self.run.recorded(self.step)
        yield from self.run.report_gap()
        self._judge(request, report)
        return report

    def _acknowledged(
        self,
        request: runs.CompleteStepRequest | runs.MarkUnknownRequest,
        policy: RetryPolicy | None,
    ) -> Flow[Report]:
        settings = self.run.settings
        if isinstance(request, runs.CompleteStepRequest):
            done = yield from answered(settings, methods.COMPLETE_STEP, request, policy=policy)
            report = decode.completed_of(done.message)
        else:
            marked = yield from answered(settings, methods.MARK_UNKNOWN, request, policy=policy)
            report = decode.marked_of(marked.message)
        self.run.lease.note_cancel(report.cancel_requested)
        return report

    def _judge(
        self, request: runs.CompleteStepRequest | runs.MarkUnknownRequest, report: Report
    ) -> None:
        if report.evidence_recorded:
            raise ReportedLate(run=self.run.run, step=self.step, report=report)
        if report.disposition not in _SETTLING:
            raise self._not_recorded(Durability.NOT_COMMITTED)
        if isinstance(request, runs.MarkUnknownRequest) or report.state is not StepState.UNKNOWN:
            return
        version = report.append.index if report.append else 0
        raise OutcomeUnknown(UnknownStep(self.run.run, self.step, version, request.attempt))

    def _not_recorded(self, durability: Durability) -> AuditNotRecorded:
        execute = self.require_executing()
        self._gave_up = True
        return self.run.not_recorded(step=self.step, attempt=execute.attempt, durability=durability)
