"""The sweep: a background caller of the one rule on dead holders (contract, section 6).

It changes nothing that the next command on the run would not change; it only does so earlier. Any
number of replicas may sweep: under the head's lock the second finds nothing due.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from ledger.batch import random_request_id
from ledger.core.commands import Caller, Request, SweepRun
from ledger.core.ids import LEDGER_ACTOR, RunId
from ledger.core.log import Log
from ledger.core.vocabulary import ActorKind, Auth
from ledger.failures import Failure
from ledger.sequencer import Sequencer
from ledger.store.errors import StoreError
from ledger.store.interface import Store
from ledger.store.rows import number, text
from ledger.store.tables import LEASES, Row
from ledger.tenants import Tenants

PAGE: Final = 200
_SWEEP_DIGEST: Final = bytes(32)

_log = structlog.get_logger(__name__)


class Sweep:
    """Finds runs on which something is due and has it done."""

    def __init__(
        self, store: Store, tenants: Tenants, sequencer: Sequencer, *, period_s: float = 1.0
    ) -> None:
        self._store = store
        self._tenants = tenants
        self._sequencer = sequencer
        self._period_s = period_s

    async def run(self) -> None:
        """Sweeps until cancelled. Store trouble only delays it."""
        while True:
            try:
                for log in await asyncio.to_thread(self._tenants.all):
                    await self.sweep(log)
            except StoreError as trouble:
                _log.warning("sweep_delayed", trouble=type(trouble).__name__)
            await asyncio.sleep(self._period_s)

    async def sweep(self, log: Log) -> int:
        """Does what is due on a log now; answers on how many runs something was looked at."""
        swept = 0
        after: Row | None = None
        while True:
            due, after = await asyncio.to_thread(self._due, log, after)
            if not due:
                break
            caller = Caller(log.tenant, LEDGER_ACTOR, ActorKind.SYSTEM, Auth.INTERNAL, frozenset())
            requests = [
                Request(caller, random_request_id(), _SWEEP_DIGEST, SweepRun(RunId(run)))
                for run in due
            ]
            outcomes = await self._sequencer.submit(requests)
            swept += len(due)
            # What was not done stays due: asking again at once would only ask for ever.
            if len(due) < PAGE or any(isinstance(each, Failure) for each in outcomes):
                break
        return swept

    def _due(self, log: Log, after: Row | None) -> tuple[list[str], Row | None]:
        """The next page of what is due, and where it ends."""
        with self._store.read() as reading:
            head_us = reading.head(log.number).time_us
            rows = reading.page(
                LEASES,
                equal={"tenant": log.tenant},
                order=("due_us", "run"),
                after=after,
                greater={"due_us": 0},
                limit=PAGE,
            )
            with self._store.change() as changing:
                clock_us = changing.clock_us()
        time = self._sequencer.time(log.tenant)
        now_us = time.now_us(head_us=head_us, clock_us=clock_us)
        due = [row for row in rows if number(row[8]) <= now_us]
        return [text(row[1]) for row in due], ((due[-1][8], due[-1][1]) if due else None)
