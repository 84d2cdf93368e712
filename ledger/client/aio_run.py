"""A driven run and its effects, for asyncio. Every decision is the core's, as in the blocking
one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from ledger.client.aio_wire import AioWire
from ledger.client.effect_core import EffectCore
from ledger.client.errors import DeadlineOverrun, ForkedProcess, LedgerError, RunNotDriven
from ledger.client.flow import Flow
from ledger.client.payloads import ABSENT, Absent, Content
from ledger.client.requests import Step
from ledger.client.run_core import RunCore
from ledger.client.tool import Declared, ToolOptions, declare
from ledger.client.values import (
    Appended,
    Closed,
    EvidenceAttached,
    Execute,
    Planned,
    Report,
    ResumeState,
    ResumeStep,
)
from ledger.client.views import EffectView, RunView
from ledger.client.words import EffectClass, Outcome, RunStatus

P = ParamSpec("P")
R = TypeVar("R")


class AsyncRun(RunView):
    """A driven run: `async with` holds the lease, renews it, and closes the run at its end.

    A clean end closes the run COMPLETED. An exception, a cancellation too, gives the lease back and
    leaves the run open, to be resumed. A body that blocks the event loop also blocks the renewals.
    """

    def __init__(self, wire: AioWire, core: RunCore) -> None:
        self._wire = wire
        self._core = core
        self._renewal: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Open the run where asked, take the lease, and begin to renew it."""
        await self._wire.drive(self._core.enter())
        self._renewal = asyncio.create_task(self._renew(), name="ledger-lease-renewal")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close or give back. See the class."""
        try:
            await self._wire.drive_through(self._core.leave(error))
        finally:
            if self._renewal is not None and not self._core.lease.is_of_another_process():
                self._renewal.cancel()
                await asyncio.wait({self._renewal})

    async def plan(self, steps: Sequence[Step], *, best_effort: bool = False) -> Planned:
        """Plan steps, all or none; equal steps that were planned before are answered, not
        repeated.
        """
        return await self._wire.drive(self._core.plan(steps, best_effort=best_effort))

    def effect(
        self,
        step: str,
        *,
        version: str | None = None,
        timeout_s: float | None = None,
        best_effort: bool = False,
        nothing_sent: tuple[type[BaseException], ...] = (),
    ) -> AsyncEffect:
        """An `async with` block around one attempt of a step. The arguments are those of
        `Run.effect`.
        """
        return AsyncEffect(
            self._wire,
            self._core,
            step=step,
            version=version,
            timeout_s=timeout_s,
            best_effort=best_effort,
            nothing_sent=nothing_sent,
        )

    async def perform(
        self,
        step: str,
        body: Callable[[AsyncEffect], Awaitable[R]],
        *,
        version: str | None = None,
        timeout_s: float | None = None,
        best_effort: bool = False,
        nothing_sent: tuple[type[BaseException], ...] = (),
    ) -> R:
        """Run a tool under a step, once, and record what it returns. Replays as `Run.perform`
        does.
        """
        async with self.effect(
            step,
            version=version,
            timeout_s=timeout_s,
            best_effort=best_effort,
            nothing_sent=nothing_sent,
        ) as effect:
            if not effect.execute:
                return cast(R, effect.begun.replayed_value())
            effect.begun.require_in_time()
            result = await body(effect)
            if not effect.begun.reported:
                await effect.succeeded(cast(Content, result))
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
    ) -> Callable[[Callable[Concatenate[AsyncEffect, P], Awaitable[R]]], AsyncTool[P, R]]:
        """Make a coroutine function a tool of this run, as `Run.tool` does."""
        options = ToolOptions(version, effect_class, timeout_s, best_effort, nothing_sent, key)

        def decorate(
            function: Callable[Concatenate[AsyncEffect, P], Awaitable[R]],
        ) -> AsyncTool[P, R]:
            return AsyncTool(self, function, declare(function, name, options))

        return decorate

    async def ready_steps(self) -> AsyncIterator[ResumeStep]:
        """Steps that may be started now, each once, read anew until no further one is ready."""
        given: set[str] = set()
        while fresh := [step for step in (await self.state()).ready if step.step not in given]:
            for step in fresh:
                given.add(step.step)
                yield step

    async def state(self) -> ResumeState:
        """The run as it stands, with exact argument bytes and results."""
        return await self._wire.drive(self._core.resume_state())

    async def withdraw(self, step: str, *, reason: str = "") -> Appended:
        """Take a planned step back before any start."""
        return await self._wire.drive(self._core.withdraw(step, reason=reason))

    async def attach_evidence(
        self,
        *evidence: Content,
        kind: str,
        step: str = "",
        attempt: int = 0,
        outcome: Outcome = Outcome.UNSPECIFIED,
    ) -> EvidenceAttached:
        """Attach facts to a step, or to the run."""
        return await self._wire.drive(
            self._core.attach_evidence(
                kind=kind, evidence=evidence, step=step, attempt=attempt, outcome=outcome
            )
        )

    async def close(self, status: RunStatus = RunStatus.COMPLETED, *, reason: str = "") -> Closed:
        """Close the run now. Planned steps are withdrawn; nothing more may start in it."""
        return await self._wire.drive_through(self._core.close(status, reason=reason))

    async def stop(self, reason: str) -> Appended:
        """Stop driving for now: the lease goes back, the run stays open. Not a failure."""
        return await self._wire.drive_through(self._core.stop(reason))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._core.lease.renewal_pause_s)
            try:
                if not await self._wire.drive(self._core.lease.renew()):
                    return
            except (RunNotDriven, ForkedProcess):
                return
            except LedgerError as error:
                self._core.lease.lost = error
                return


class AsyncEffect(EffectView):
    """An `async with` block around one attempt of a step; the ledger's directive decides.

    As `Effect`, and the body is cancelled at its operation deadline: the attempt is recorded as
    unknown then, and `DeadlineOverrun` is raised. A report once begun is not cut off by the
    deadline.
    """

    def __init__(
        self,
        wire: AioWire,
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
        self._alarm: asyncio.Timeout | None = None

    async def __aenter__(self) -> Self:
        """Ask to start. The operation deadline is checked last, directly before the body."""
        self._core = core = await self._wire.drive(
            self._run.start(
                self._step,
                version=self._version,
                timeout_s=self._timeout_s,
                best_effort=self._best_effort,
                nothing_sent=self._nothing_sent,
            )
        )
        if isinstance(core.directive, Execute):
            self._alarm = await asyncio.timeout(core.remaining_s).__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Record what leaving proves, if the body did not report."""
        overrun: DeadlineOverrun | None = None
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            try:
                await alarm.__aexit__(kind, error, trace)
            except TimeoutError:
                overrun = DeadlineOverrun(run=self._run.run, step=self._step)
        await self._wire.drive_through(self.begun.leave(overrun or error))
        if overrun is not None:
            raise overrun from error

    @property
    def begun(self) -> EffectCore:
        """The attempt's own state. Raises `RunNotDriven` before the block."""
        return self._begun

    async def succeeded(
        self,
        result: Content | Absent = ABSENT,
        *,
        external_reference: Content | Absent = ABSENT,
    ) -> Report:
        """The effect happened and ended well. Raises as `Effect.succeeded` does."""
        return await self._report(
            self.begun.complete(
                Outcome.SUCCEEDED, result=result, external_reference=external_reference
            )
        )

    async def failed(self, result: Content | Absent = ABSENT) -> Report:
        """The outside system says that it definitely failed. A write that is unclear is
        `unknown`.
        """
        return await self._report(self.begun.complete(Outcome.FAILED, result=result))

    async def no_effect(self, result: Content | Absent = ABSENT) -> Report:
        """It was refused before any effect; the same key may be started again."""
        return await self._report(self.begun.complete(Outcome.NO_EFFECT, result=result))

    async def unknown(self, cause: str, *, note: Content | Absent = ABSENT) -> Report:
        """Nobody can say what came of it. `cause` is an id such as `timeout` or `lost_answer`."""
        return await self._report(self.begun.mark_unknown(cause, note=note))

    async def resend(self) -> Report:
        """After `AuditNotRecorded`: send the very same report again."""
        return await self._report(self.begun.resend())

    async def _report(self, flow: Flow[Report]) -> Report:
        if self._alarm is not None and not self._alarm.expired():
            self._alarm.reschedule(None)
        return await self._wire.drive_through(flow)


class AsyncTool(Generic[P, R]):
    """A coroutine function as a tool of one run. Call it with a step's id in the effect's place."""

    def __init__(
        self,
        run: AsyncRun,
        function: Callable[Concatenate[AsyncEffect, P], Awaitable[R]],
        declared: Declared,
    ) -> None:
        self._run = run
        self._function = function
        self._declared = declared

    def step(self, step: str, *args: P.args, **kwargs: P.kwargs) -> Step:
        """The step that such a call plans, to plan several ahead."""
        return self._declared.step(step, args, kwargs)

    async def __call__(self, step: str, *args: P.args, **kwargs: P.kwargs) -> R:
        """Plan the step, ask to start it, run the function if the directive says so, and report."""
        options = self._declared.options
        await self._run.plan(
            [self._declared.step(step, args, kwargs)], best_effort=options.best_effort
        )
        return await self._run.perform(
            step,
            lambda effect: self._function(effect, *args, **kwargs),
            version=options.version,
            timeout_s=options.timeout_s,
            best_effort=options.best_effort,
            nothing_sent=options.nothing_sent,
        )
