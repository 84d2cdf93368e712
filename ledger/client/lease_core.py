"""The lease of a driven run: taken for this process, renewed, given back. No I/O; flows only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ledger.client import decode, methods, process, requests
from ledger.client.errors import (
    ForkedProcess,
    HeldByAnother,
    LedgerError,
    LedgerUnavailable,
    RunNotDriven,
)
from ledger.client.flow import Answered, Flow, Pause, Settings, answered
from ledger.client.requests import Driving
from ledger.client.retry import RetryPolicy
from ledger.client.values import Appended, Lease
from ledger.v1 import run_service_pb2 as runs

LEASE_S: Final = 30.0
"""A lease's time to live unless asked otherwise, in seconds."""
_HELD_PAUSE_S: Final = 0.5
_RENEWALS_PER_TTL: Final = 3.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is taken. `open_request` is None where it must exist already."""

    run: str
    holder: str
    ttl_s: float
    wait_s: float
    open_request: runs.OpenRunRequest | None


class LeaseCore:
    """The lease, and whether this process may still drive with it."""

    def __init__(self, settings: Settings, options: RunOptions) -> None:
        self.lost: LedgerError | None = None
        self.cancel_requested = False
        self._settings = settings
        self._options = options
        self._driving: Driving | None = None
        self._taken_by: process.Process | None = None
        self._until_s = 0.0

    @property
    def driving(self) -> Driving | None:
        """What driving calls carry while the run is driven here; None before and after."""
        return self._driving

    @property
    def remaining_s(self) -> float:
        """Seconds that the lease surely still lives, counted on our own clock."""
        return self._until_s - self._settings.clock()

    @property
    def renewal_pause_s(self) -> float:
        """Seconds to wait before the next renewal."""
        return self._options.ttl_s / _RENEWALS_PER_TTL

    def require_driving(self) -> Driving:
        """What driving calls carry. Raises `RunNotDriven`, or `ForkedProcess` in a forked child."""
        if self._driving is None:
            raise RunNotDriven(self._options.run)
        self.require_own_process()
        return self._driving

    def require_own_process(self) -> None:
        """Raise `ForkedProcess` where another process took the lease.

        An attempt may still be reported after the run was left, but never from a forked child.
        """
        if self.is_of_another_process():
            raise ForkedProcess()

    def is_of_another_process(self) -> bool:
        """Whether this is a forked child of the process that took the lease."""
        return self._taken_by is not None and self._taken_by != process.current()

    def note_cancel(self, requested: bool) -> None:
        """Remember that the run was asked to cancel."""
        self.cancel_requested = self.cancel_requested or requested

    def acquire(self) -> Flow[None]:
        """Take the lease for this process, waiting up to `wait_s` for a holder to go."""
        options = self._options
        me = process.current()
        request = requests.acquire_lease(
            options.run,
            holder=options.holder,
            process=me,
            ttl_s=options.ttl_s,
            limits=self._settings.limits,
        )
        granted = yield from self._granted(request)
        lease = decode.lease_of(granted.message.lease)
        self._driving = Driving(options.run, lease.token, me)
        self._taken_by = me
        self._take(lease, granted.sent_at_s)
        self.note_cancel(granted.message.cancel_requested)

    def renew(self) -> Flow[bool]:
        """Renew the lease once. False once it is lost for good; `lost` says why.

        An outage is no loss: the ledger's own clock decides, at the next renewal that reaches it.
        """
        request = requests.renew_lease(self.require_driving(), ttl_s=self._options.ttl_s)
        policy = replace(self._settings.retry, deadline_s=max(1.0, self.remaining_s))
        try:
            renewed = yield from answered(
                self._settings, methods.RENEW_LEASE, request, policy=policy
            )
        except LedgerUnavailable:
            return True
        except LedgerError as error:
            if self._driving is not None:  # else it was given back meanwhile
                self.lost = error
            return False
        self._take(decode.lease_of(renewed.message.lease), renewed.sent_at_s)
        self.note_cancel(renewed.message.cancel_requested)
        return True

    def release(self, reason: str, *, policy: RetryPolicy | None = None) -> Flow[Appended]:
        """Give the lease back; the run stays open. Started writes become UNKNOWN."""
        request = requests.release_lease(
            self.require_driving(), stop_reason=reason, limits=self._settings.limits
        )
        answer = yield from answered(self._settings, methods.RELEASE_LEASE, request, policy=policy)
        self.ended()
        return decode.released_of(answer.message)

    def release_quietly(self, reason: str, error: BaseException) -> Flow[None]:
        """Give it back if the ledger can be told soon; else it runs out by itself.

        `error` is what the caller raises; a note on it says if this failed.
        """
        if self._driving is None:
            return
        try:
            yield from self.release(reason, policy=self._settings.leaving)
        except LedgerError as fault:
            self.ended()
            error.add_note(f"and the lease was not given back: {fault}")

    def ended(self) -> None:
        """The run is no longer driven here."""
        self._driving = None

    def _granted(
        self, request: runs.AcquireLeaseRequest
    ) -> Flow[Answered[runs.AcquireLeaseResponse]]:
        """A refused try appended nothing, so the same request is sent again."""
        began_s = self._settings.clock()
        while True:
            try:
                return (yield from answered(self._settings, methods.ACQUIRE_LEASE, request))
            except HeldByAnother:
                left_s = self._options.wait_s - (self._settings.clock() - began_s)
                if left_s <= 0:
                    raise
            yield Pause(min(left_s, _HELD_PAUSE_S * (0.5 + self._settings.jitter())))

    def _take(self, lease: Lease, sent_at_s: float) -> None:
        self._until_s = sent_at_s + lease.remaining_s
