"""The door before the sequencer: half closed while stopping, closed for a log that was rewound.

Contract, section 7: under drain, opens, plans and starts are refused first; what a runtime did can
still be recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic

from ledger.core.answers import Answered, LeaseGranted
from ledger.core.commands import Caller, RenewLease, Request, reports_started_work
from ledger.core.ids import Tenant
from ledger.core.refusals import Refused
from ledger.failures import Failure, FailureKind
from ledger.sequencer import Sequencer

_LOOK_S = 0.02
_DRAINING = Failure(FailureKind.DRAINING, retry_after_ms=1_000)


class Door:
    """Lets commands through to the sequencer. Belongs to one event loop."""

    def __init__(self, sequencer: Sequencer) -> None:
        self._sequencer = sequencer
        self._draining = False
        self._closed: dict[Tenant, Failure] = {}
        self._last_s = monotonic()
        self._inside = 0

    def close_log(self, tenant: Tenant, kind: FailureKind) -> None:
        """From now on every command of the tenant is answered with that failure."""
        self._closed[tenant] = Failure(kind)
        self._sequencer.close_log(tenant, kind)

    def drain(self) -> None:
        """From now on only reports of started work, renewals and releases are taken."""
        self._draining = True
        self._last_s = monotonic()

    def is_quiet(self, *, for_s: float) -> bool:
        """Whether nothing is inside and nothing came for that many seconds."""
        return not self._inside and monotonic() - self._last_s >= for_s

    async def wait_quiet(self, *, for_s: float, until_s: float) -> None:
        """Returns when it was quiet for `for_s` seconds, at the latest at `until_s` (monotonic)."""
        while not self.is_quiet(for_s=for_s) and monotonic() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)  # quiet is the absence of events: there is none to await

    async def submit(self, requests: Sequence[Request]) -> list[Answered | Failure]:
        """See `Sequencer.submit`. While draining, a command that begins something is answered
        DRAINING; its neighbours in the message are not."""
        closed = self._closed.get(requests[0].caller.tenant) if requests else None
        if closed is not None:
            return [closed] * len(requests)
        if not self._draining:
            self._inside += 1
            try:
                return await self._sequencer.submit(requests)
            finally:
                self._inside -= 1
        taken = [request for request in requests if reports_started_work(request.command)]
        if taken:
            self._last_s = monotonic()
        self._inside += 1
        try:
            outcomes = iter(await self._sequencer.submit(taken))
        finally:
            self._inside -= 1
        return [
            next(outcomes) if reports_started_work(request.command) else _DRAINING
            for request in requests
        ]

    async def renew(self, caller: Caller, command: RenewLease) -> LeaseGranted | Refused | Failure:
        """See `Sequencer.renew`: never refused for draining."""
        closed = self._closed.get(caller.tenant)
        if closed is not None:
            return closed
        return await self._sequencer.renew(caller, command)
