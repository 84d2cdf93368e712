"""A driven run and its effects, blocking."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from ledger.client.effect_core import EffectCore
from ledger.client.errors import ForkedProcess, LedgerError, RunNotDriven
from ledger.client.payloads import ABSENT, Absent, Content
from ledger.client.requests import Step
from ledger.client.run_core import RunCore
from ledger.client.sync_wire import SyncWire
from ledger.client.tool import Declared, ToolOptions, declare
from ledger.client.values import (
    Appended,
    Closed,
    EvidenceAttached,
    Planned,
    Report,
    ResumeState,
    ResumeStep,
)
from ledger.client.views import EffectView, RunView
from ledger.client.words import EffectClass, Outcome, RunStatus

P = ParamSpec("P")
R = TypeVar("R")


class Run(RunView):
    """A driven run: a with block that holds the lease, renews it, and closes the run at its end.

    A clean end closes the run COMPLETED. An exception gives the lease back and leaves the run open,
    to be resumed. A run with an unrecorded outcome is never closed COMPLETED: leaving raises.
    """

    def __init__(self, wire: SyncWire, core: RunCore) -> None:
        self._wire = wire
        self._core = core
        self._renewal: _Renewal | None = None

    def __enter__(self) -> Self:
        """Open the run where asked, take the lease, and begin to renew it."""
        self._wire.drive(self._core.enter())
        self._renewal = _Renewal(self._wire, self._core)
        self._renewal.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close or give back. See the class."""
        try:
            self._wire.drive(self._core.leave(error))
        finally:
            if self._renewal is not None:
                self._renewal.stop()

    def plan(self, steps: Sequence[Step], *, best_effort: bool = False) -> Planned:
        """Plan steps, all or none; equal steps that were planned before are answered, not
        repeated.
        """
        return self._wire.drive(self._core.plan(steps, best_effort=best_effort))

    def effect(
        self,
        step: str,
        *,
        version: str | None = None,
        timeout_s: float | None = None,
        best_effort: bool = False,
        nothing_sent: tuple[type[BaseException], ...] = (),
    ) -> Effect:
        """A with block around one attempt of a step. See `Effect`.

        `version` is that of the tool that would run (default: as planned here); `timeout_s` is the
        operation timeout. An exception of a type in `nothing_sent` proves that nothing left the
        process, as `NothingSent` does. `best_effort` is for planned READ_ONLY and PROPOSE steps:
        they run even where the ledger does not answer, and what was not recorded is counted and
        reported.
        """
        return Effect(
            self._wire,
            self._core,
            step=step,
            version=version,
            timeout_s=timeout_s,
            best_effort=best_effort,
            nothing_sent=nothing_sent,
        )

    def perform(
        self,
        step: str,
        body: Callable[[Effect], R],
        *,
        version: str | None = None,
        timeout_s: float | None = None,
        best_effort: bool = False,
        nothing_sent: tuple[type[BaseException], ...] = (),
    ) -> R:
        """Run a tool under a step, once, and record what it returns as its result.

        Where the step was settled before, `body` is not called and the stored result is returned
        (decoded JSON); a failed one raises `DefinitelyFailed` again, and one whose result is not
        there raises `ResultUnavailable`.
        """
        with self.effect(
            step,
            version=version,
            timeout_s=timeout_s,
            best_effort=best_effort,
            nothing_sent=nothing_sent,
        ) as effect:
            if not effect.execute:
                return cast(R, effect.begun.replayed_value())
            effect.begun.require_in_time()
            result = body(effect)
            if not effect.begun.reported:
                effect.succeeded(cast(Content, result))
            return result

    def tool(
        self,
        name: str | None = None,
        *,
        version: str,
        effect_class: EffectClass = EffectClass.UNSPECIFIED,
        timeout_s: float | None = None,
        best_effort: bool = False,
        nothing_sent: tuple[type[BaseException], ...] = (),
        key: Callable[..., str] | None = None,
    ) -> Callable[[Callable[Concatenate[Effect, P], R]], Tool[P, R]]:
        """Make a function a tool of this run: `refund("s1", order=4711)` plans, starts and reports.

        The function's first parameter is the effect; a call gives the step's id in its place. The
        other arguments, by name and with defaults, are the step's arguments.
        """
        options = ToolOptions(version, effect_class, timeout_s, best_effort, nothing_sent, key)

        def decorate(function: Callable[Concatenate[Effect, P], R]) -> Tool[P, R]:
            return Tool(self, function, declare(function, name, options))

        return decorate

    def ready_steps(self) -> Iterator[ResumeStep]:
        """Steps that may be started now, each once, read anew until no further one is ready."""
        given: set[str] = set()
        while fresh := [step for step in self.state().ready if step.step not in given]:
            for step in fresh:
                given.add(step.step)
                yield step

    def state(self) -> ResumeState:
        """The run as it stands, with exact argument bytes and results."""
        return self._wire.drive(self._core.resume_state())

    def withdraw(self, step: str, *, reason: str = "") -> Appended:
        """Take a planned step back before any start."""
        return self._wire.drive(self._core.withdraw(step, reason=reason))

    def attach_evidence(
        self,
        *evidence: Content,
        kind: str,
        step: str = "",
        attempt: int = 0,
        outcome: Outcome = Outcome.UNSPECIFIED,
    ) -> EvidenceAttached:
        """Attach facts to a step, or to the run."""
        return self._wire.drive(
            self._core.attach_evidence(
                kind=kind, evidence=evidence, step=step, attempt=attempt, outcome=outcome
            )
        )

    def close(self, status: RunStatus = RunStatus.COMPLETED, *, reason: str = "") -> Closed:
        """Close the run now. Planned steps are withdrawn; nothing more may start in it."""
        return self._wire.drive(self._core.close(status, reason=reason))

    def stop(self, reason: str) -> Appended:
        """Stop driving for now: the lease goes back, the run stays open. Not a failure."""
        return self._wire.drive(self._core.stop(reason))


class Effect(EffectView):
    """A with block around one attempt of a step; the ledger's directive decides.

    EXECUTE: `execute` is true; run the tool with `key` and `token`, then report. REPLAY: `execute`
    is false, `result` holds what was stored. HELD, UNKNOWN and REFUSED raise before the body.

    Leaving by an exception records the attempt as unknown, unless it is `NothingSent` (NO_EFFECT)
    or `DefinitelyFailed` (FAILED); KeyboardInterrupt and SystemExit too. A blocking body cannot be
    stopped at its operation deadline: only the system downstream can refuse it, by key and token.
    """

    def __init__(
        self,
        wire: SyncWire,
        run: RunCore,
        *,
        step: str,
        version: str | None,
        timeout_s: float | None,
        best_effort: bool,
        nothing_sent: tuple[type[BaseException], ...],
    ) -> None:
        self._wire = wire
        self._run = run
        self._core: EffectCore | None = None
        self._step = step
        self._version = version
        self._timeout_s = timeout_s
        self._best_effort = best_effort
        self._nothing_sent = nothing_sent

    def __enter__(self) -> Self:
        """Ask to start. The operation deadline is checked last, directly before the body."""
        self._core = self._wire.drive(
            self._run.start(
                self._step,
                version=self._version,
                timeout_s=self._timeout_s,
                best_effort=self._best_effort,
                nothing_sent=self._nothing_sent,
            )
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Record what leaving proves, if the body did not report."""
        self._wire.drive(self.begun.leave(error))

    @property
    def begun(self) -> EffectCore:
        """The attempt's own state. Raises `RunNotDriven` before the with block."""
        return self._begun

    def succeeded(
        self,
        result: Content | Absent = ABSENT,
        *,
        external_reference: Content | Absent = ABSENT,
    ) -> Report:
        """The effect happened and ended well. Returns once that is durable.

        Raises `AuditNotRecorded` where the ledger does not acknowledge it, `ReportedLate` where it
        came too late to settle the step, and `ResultNotStorable` where the result is the trouble.
        """
        return self._wire.drive(
            self.begun.complete(
                Outcome.SUCCEEDED, result=result, external_reference=external_reference
            )
        )

    def failed(self, result: Content | Absent = ABSENT) -> Report:
        """The outside system says that it definitely failed. A write that is unclear is
        `unknown`.
        """
        return self._wire.drive(self.begun.complete(Outcome.FAILED, result=result))

    def no_effect(self, result: Content | Absent = ABSENT) -> Report:
        """It was refused before any effect; the same key may be started again."""
        return self._wire.drive(self.begun.complete(Outcome.NO_EFFECT, result=result))

    def unknown(self, cause: str, *, note: Content | Absent = ABSENT) -> Report:
        """Nobody can say what came of it. `cause` is an id such as `timeout` or `lost_answer`."""
        return self._wire.drive(self.begun.mark_unknown(cause, note=note))

    def resend(self) -> Report:
        """After `AuditNotRecorded`: send the very same report again."""
        return self._wire.drive(self.begun.resend())


class Tool(Generic[P, R]):
    """A function as a tool of one run. Call it with a step's id in the effect's place."""

    def __init__(
        self, run: Run, function: Callable[Concatenate[Effect, P], R], declared: Declared
    ) -> None:
        self._run = run
        self._function = function
        self._declared = declared

    def step(self, step: str, *args: P.args, **kwargs: P.kwargs) -> Step:
        """The step that such a call plans, to plan several ahead."""
        return self._declared.step(step, args, kwargs)

    def __call__(self, step: str, *args: P.args, **kwargs: P.kwargs) -> R:
        """Plan the step, ask to start it, run the function if the directive says so, and report."""
        options = self._declared.options
        self._run.plan([self._declared.step(step, args, kwargs)], best_effort=options.best_effort)
        return self._run.perform(
            step,
            lambda effect: self._function(effect, *args, **kwargs),
            version=options.version,
            timeout_s=options.timeout_s,
            best_effort=options.best_effort,
            nothing_sent=options.nothing_sent,
        )


class _Renewal(threading.Thread):
    """Renews the lease in the background until stopped or until the lease is lost."""

    def __init__(self, wire: SyncWire, core: RunCore) -> None:
        super().__init__(name="ledger-lease-renewal", daemon=True)
        self._wire = wire
        self._core = core
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(self._core.lease.renewal_pause_s):
            try:
                if not self._wire.drive(self._core.lease.renew()):
                    return
            except (RunNotDriven, ForkedProcess):
                return
            except LedgerError as error:
                self._core.lease.lost = error
                return
            except ValueError:
                return  # the channel was closed under us

    def stop(self) -> None:
        """No renewal begins after this."""
        self._stopped.set()
