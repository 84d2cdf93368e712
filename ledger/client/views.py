"""What a run and an effect show of themselves, the same in the sync and the asyncio client."""

from __future__ import annotations

from ledger.client.effect_core import EffectCore, Unrecorded
from ledger.client.errors import LedgerError, RunNotDriven
from ledger.client.run_core import RunCore
from ledger.client.values import Replay, Report, ResumeState, RunInfo, StoredPayload


class RunView:
    """A driven run, as it shows itself."""

    _core: RunCore

    @property
    def run(self) -> str:
        """The run's id."""
        return self._core.run

    @property
    def info(self) -> RunInfo | None:
        """The run as it stood when it was opened or last read."""
        return self._core.info

    @property
    def resumed(self) -> ResumeState | None:
        """The run's state as last read; None before."""
        return self._core.resumed

    @property
    def token(self) -> int:
        """The lease's fencing token. Raises `RunNotDriven` outside the with block."""
        return self._core.lease.require_driving().token

    @property
    def cancel_requested(self) -> bool:
        """Whether the run was asked to cancel: nothing more may start in it."""
        return self._core.lease.cancel_requested

    @property
    def lease_lost(self) -> LedgerError | None:
        """Why the lease was lost, if a renewal was refused. What is started may still be
        reported.
        """
        return self._core.lease.lost

    @property
    def dropped(self) -> int:
        """Best-effort records that were dropped and that the ledger does not know of yet."""
        return self._core.gaps.unreported


class EffectView:
    """One attempt of a step, as it shows itself inside its with block."""

    _core: EffectCore | None
    _run: RunCore

    @property
    def execute(self) -> bool:
        """True: run the tool now. False: it was settled before, see `result`."""
        return self._begun.executing

    @property
    def replayed(self) -> Replay | None:
        """The earlier outcome, where the step was settled before."""
        directive = self._begun.directive
        return directive if isinstance(directive, Replay) else None

    @property
    def result(self) -> StoredPayload | None:
        """The stored result of the earlier outcome."""
        replay = self.replayed
        return None if replay is None else replay.result

    @property
    def key(self) -> str:
        """The idempotency key to pass downstream; empty for READ_ONLY and PROPOSE.

        Raises `NotExecuting` on a replay, so that a body without a guard stops before its tool.
        """
        if isinstance(self._begun.directive, Unrecorded):
            return ""
        return self._begun.require_executing().key

    @property
    def token(self) -> int:
        """The fencing token to pass downstream; 0 for an unrecorded read. Raises as `key` does."""
        if isinstance(self._begun.directive, Unrecorded):
            return 0
        return self._begun.require_executing().token

    @property
    def attempt(self) -> int:
        """The attempt's number, from 1; 0 for an unrecorded read. Raises as `key` does."""
        if isinstance(self._begun.directive, Unrecorded):
            return 0
        return self._begun.require_executing().attempt

    @property
    def remaining_s(self) -> float:
        """Seconds until the operation deadline, on this machine's own clock; negative once past."""
        return self._begun.remaining_s

    @property
    def report(self) -> Report | None:
        """How the report was taken; None before it is acknowledged."""
        return self._begun.report

    @property
    def _begun(self) -> EffectCore:
        if self._core is None:
            raise RunNotDriven(self._run.run)
        return self._core
