"""The access logs of a ledger in the test's own process, and what a test records in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ledger.access import AccessLogs
from ledger.access_door import AccessDoor
from ledger.access_settings import AccessSettings
from ledger.batch import random_request_id
from ledger.core.access import Access, actor_of
from ledger.core.commands import (
    AcquireLease,
    Caller,
    OpenRun,
    Payload,
    PlanSteps,
    Request,
    StepPlan,
)
from ledger.core.entry import Entry
from ledger.core.events import AccessPayloadRead, AccessRefused
from ledger.core.ids import (
    HolderName,
    RequestId,
    RunId,
    StepId,
    ToolName,
    ToolVersion,
)
from ledger.core.log import Log
from ledger.core.refusals import Reason, Refused
from ledger.core.vocabulary import EffectClass, Role
from ledger.door import Door
from ledger.failures import Failure, FailureKind
from ledger.ledger_time import LedgerTime
from ledger.sequencer import Outcome
from ledger.store.interface import Store
from ledger.threads import Threads
from tests.support.in_process import AUDITOR, P1, RUNTIME, LedgerInProcess
from tests.support.oracle import verify_access_log

RUN = RunId("run-1")


@dataclass
class Server:
    """The access logs of a ledger as one server keeps them, at a time the test sets."""

    ledger: LedgerInProcess
    settings: AccessSettings = field(default_factory=AccessSettings)
    at: int = 0
    store: Store | None = None

    def __post_init__(self) -> None:
        self.now_s = 0.0
        self.fatal: list[BaseException] = []
        self.threads = Threads(count=1, name="access-test")
        replica = self.ledger.replicas[self.at]
        self.logs = AccessLogs(
            self.store or replica.store,
            replica.tenants.access,
            self.threads,
            self.settings,
            new_time=lambda: LedgerTime(monotonic_us=self.ledger.clock.monotonic),
            on_commit=lambda: None,
            on_fatal=self.fatal.append,
            now_s=lambda: self.now_s,
        )
        self.door = AccessDoor(Door(replica.sequencer), self.logs)

    @property
    def log(self) -> Log:
        """The tenant's access log."""
        return self.ledger.replicas[0].tenants.access(self.ledger.tenant)

    def entries(self) -> list[Entry]:
        """What stands in it, verified."""
        return verify_access_log(self.ledger.store, self.log)

    def bodies(self, event_type: str) -> list[Any]:
        """The bodies of the entries of a type."""
        return [entry.event["body"] for entry in self.entries() if entry.type == event_type]

    def refused(self, *accesses: Access) -> None:
        """Records refusals."""
        self.ledger.until_done(self.logs.record_refusals(self.ledger.tenant, accesses))

    def read(self, access: Access) -> None:
        """Records a read."""
        self.ledger.until_done(self.logs.record_read(self.ledger.tenant, access))

    def submit(self, *requests: Request) -> list[Outcome]:
        """Sends a message through the door."""
        return self.ledger.until_done(self.door.submit(requests))

    def close(self) -> None:
        """Drains it."""
        assert self.ledger.until_done(self.logs.drain(10))
        self.threads.close()
        assert not self.fatal, self.fatal


OpenAccess = Callable[..., Server]


@pytest.fixture
def opened(ledger: LedgerInProcess) -> Iterator[OpenAccess]:
    """Opens the access logs as a server does; closed and verified at the end."""
    made: list[Server] = []

    def open_it(*, at: int = 0, store: Store | None = None, **settings: int) -> Server:
        made.append(Server(ledger, AccessSettings(**settings), at, store))
        return made[-1]

    yield open_it
    for each in made:
        each.close()


@pytest.fixture
def access(opened: OpenAccess) -> Server:
    return opened()


def refusal(
    ledger: LedgerInProcess, *, by: Caller = RUNTIME, under: RequestId | None = None
) -> Access:
    """A refusal of a call without its role."""
    who = replace(by, tenant=ledger.tenant)
    body = AccessRefused(method="ListEntries", reason="ROLE_MISSING")
    return Access(actor_of(who, None), under or random_request_id(), body, once=True)


def read(ledger: LedgerInProcess, *, by: Caller = AUDITOR) -> Access:
    """A read of a payload."""
    body = AccessPayloadRead(
        origin=ledger.log.origin, index=3, payload="0" * 32, name="arguments", run="r"
    )
    return Access(
        actor_of(replace(by, tenant=ledger.tenant), Role.AUDIT), random_request_id(), body
    )


def plan(token: int, *, arguments: bytes = b"{}") -> PlanSteps:
    """A plan of one step."""
    step = StepPlan(
        StepId("s1"),
        ToolName("look"),
        ToolVersion("1"),
        Payload(arguments),
        effect=EffectClass.READ_ONLY,
    )
    return PlanSteps(RUN, token, P1, (step,))


def driven(ledger: LedgerInProcess) -> None:
    """A run with a lease and a plan."""
    ledger.ask(OpenRun(RUN))
    ledger.ask(AcquireLease(RUN, HolderName("host"), P1))
    ledger.ask(plan(1))


def reasons(outcomes: Sequence[Outcome]) -> list[Reason | FailureKind | None]:
    """Why each was refused, None where it was not."""
    told: list[Reason | FailureKind | None] = []
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            told.append(outcome.kind)
        else:
            answer = outcome.answer
            told.append(answer.reason if isinstance(answer, Refused) else None)
    return told
