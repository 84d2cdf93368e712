"""The real sequencer on a real store, in the test's own process, at a time the test sets.

`LedgerInProcess` is one tenant with its log; `replica()` is another server on the same database.
Time flows as it does, plus what `clock.advance` adds to the database's clock and to every replica's
monotonic clock alike, so that the ledger believes it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from time import monotonic_ns
from typing import Any, Final, TypeVar

import pytest

from ledger.batch import random_request_id
from ledger.core.answers import Answer, Answered
from ledger.core.commands import Caller, Command, Payload, RenewLease, Request
from ledger.core.entry import Entry
from ledger.core.ids import PrincipalId, ProcessNonce, RequestId, RunId, StepId, Tenant
from ledger.core.policy import Policies, Policy
from ledger.core.request_digest import request_digest
from ledger.core.run import Run
from ledger.core.step import Step
from ledger.core.vocabulary import ActorKind, Auth, Role
from ledger.failures import Failure
from ledger.keyring import Keyring
from ledger.ledger_time import ClockAlarm, LedgerTime
from ledger.sequencer import Outcome, Sequencer, SequencerSettings
from ledger.store.inline import Projections
from ledger.store.interface import Store
from ledger.store.opening import open_store
from ledger.store.settings import StoreSettings
from ledger.sweep import Sweep
from ledger.tenants import Tenants, random_origin
from ledger.vault import Vault
from projections.idempotency import IdempotencyRows
from projections.leases import LeaseRows
from projections.resume import ResumeRows
from projections.unknowns import UnknownRows
from projections.views import Views
from tests.support.oracle import entries_of, verify_access_log, verify_log

P1: Final = ProcessNonce("process-1-of-test")
P2: Final = ProcessNonce("process-2-of-test")
S_US: Final = 1_000_000

_Result = TypeVar("_Result")


def caller(name: str, kind: ActorKind, *roles: Role, tenant: str = "") -> Caller:
    """A principal; the ledger puts its own tenant in where none is given."""
    return Caller(Tenant(tenant), PrincipalId(name), kind, Auth.EMBEDDED, frozenset(roles))


RUNTIME: Final = caller("runtime-1", ActorKind.RUNTIME, Role.DRIVE)
RUNTIME_2: Final = caller("runtime-2", ActorKind.RUNTIME, Role.DRIVE)
REVIEWER: Final = caller("reviewer-1", ActorKind.HUMAN, Role.READ, Role.RECONCILE)
REVIEWER_2: Final = caller("reviewer-2", ActorKind.HUMAN, Role.READ, Role.RECONCILE)
REVIEWER_3: Final = caller("reviewer-3", ActorKind.HUMAN, Role.READ, Role.RECONCILE)
CONFIRMER: Final = caller("confirmer-1", ActorKind.CONFIRMER, Role.READ, Role.CONFIRM)
ADMIN: Final = caller("admin-1", ActorKind.HUMAN, Role.ADMIN)
CANCELLER: Final = caller("canceller-1", ActorKind.HUMAN, Role.CANCEL)
AUDITOR: Final = caller("auditor-1", ActorKind.HUMAN, Role.AUDIT, Role.READ)


class Clock:
    """What is added to the clocks, in microseconds."""

    def __init__(self) -> None:
        self.database_us = 0
        self.monotonic_us = 0

    def advance(self, seconds: float) -> None:
        """Lets time pass for everybody."""
        self.database_us += round(seconds * S_US)
        self.monotonic_us += round(seconds * S_US)

    def reset(self) -> None:
        """As at first."""
        self.database_us = self.monotonic_us = 0

    def monotonic(self) -> int:
        """A replica's monotonic clock."""
        return monotonic_ns() // 1000 + self.monotonic_us


class House:
    """One database with the connections of two servers, for all tests of a process."""

    def __init__(self, url: str, folder: Path) -> None:
        self.clock = Clock()
        self._url = url
        Keyring.new(folder / "keys")
        self.keyring = Keyring.load(folder / "keys")
        settings = StoreSettings(clock_shift_us=lambda: self.clock.database_us)
        self.stores: list[Store] = [open_store(url, settings) for _ in range(2)]
        self.stores[0].migrate()
        self.loop = asyncio.new_event_loop()

    def another(self, settings: StoreSettings) -> Store:
        """One more server's connections; whoever asks closes them."""
        return open_store(self._url, settings)

    def close(self) -> None:
        """Closes its connections."""
        self.loop.close()
        for store in self.stores:
            store.close()


@dataclass
class Replica:
    """One server: a sequencer with memory, vault and ledger time of its own."""

    store: Store
    sequencer: Sequencer
    tenants: Tenants
    alarms: list[ClockAlarm]
    fatal: list[BaseException]

    @property
    def sweep(self) -> Sweep:
        """Its background caller of the rule on dead holders."""
        return Sweep(self.store, self.tenants, self.sequencer)


@dataclass
class LedgerInProcess:
    """A tenant, and the servers that a test has started for it."""

    house: House
    tenant: Tenant
    replicas: list[Replica] = field(default_factory=list)

    def __post_init__(self) -> None:
        Tenants(self.house.stores[0], Vault(self.house.keyring)).new(self.tenant, random_origin())
        self.replica()
        self.log = self.replicas[0].tenants.log(self.tenant)
        self.views = Views()

    @property
    def clock(self) -> Clock:
        """The time."""
        return self.house.clock

    @property
    def store(self) -> Store:
        """The first server's store."""
        return self.house.stores[0]

    def replica(self, *, clock: Clock | None = None, policy: Policy | None = None) -> Replica:
        """Starts another server on the same database; `clock` gives it a monotonic clock, `policy`
        other rules for deciding."""
        store = self.house.stores[len(self.replicas) % 2]
        vault = Vault(self.house.keyring)
        runs, claims = ResumeRows(), IdempotencyRows()
        written = (runs, claims, LeaseRows(), UnknownRows())
        alarms: list[ClockAlarm] = []
        fatal: list[BaseException] = []
        monotonic = (clock or self.clock).monotonic
        tenants = Tenants(store, vault)
        sequencer = Sequencer(
            store,
            tenants,
            vault,
            Projections(runs, claims, written),
            SequencerSettings(policies=Policies(policy or Policy())),
            new_time=lambda: LedgerTime(monotonic_us=monotonic, on_alarm=alarms.append),
            on_fatal=fatal.append,
        )
        made = Replica(store, sequencer, tenants, alarms, fatal)
        self.replicas.append(made)
        return made

    def until_done(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Runs to its end on the test's event loop."""
        return self.house.loop.run_until_complete(work)

    # Requests

    def request(
        self, command: Command, *, by: Caller = RUNTIME, under: RequestId | None = None
    ) -> Request:
        """A request as the service would make it, under a fresh id unless one is given."""
        who = Caller(by.tenant or self.tenant, by.principal, by.kind, by.auth, by.roles)
        return Request(who, under or random_request_id(), content_digest(command), command)

    def submit(self, *requests: Request, at: int = 0) -> list[Outcome]:
        """Sends one message to a server and answers what it answered."""
        return self.until_done(self.replicas[at].sequencer.submit(requests))

    def submit_at_once(self, *messages: tuple[int, Sequence[Request]]) -> list[list[Outcome]]:
        """Sends (server, message) pairs at the same time; answers come in the same order."""

        async def all_of_them() -> list[list[Outcome]]:
            asked = [self.replicas[at].sequencer.submit(one) for at, one in messages]
            return list(await asyncio.gather(*asked))

        return self.until_done(all_of_them())

    def send(self, request: Request, *, at: int = 0) -> Answered:
        """Sends one request; a failure to answer fails the test."""
        (outcome,) = self.submit(request, at=at)
        assert isinstance(outcome, Answered), outcome
        return outcome

    def ask(
        self,
        command: Command,
        *,
        by: Caller = RUNTIME,
        under: RequestId | None = None,
        at: int = 0,
    ) -> Answer:
        """The answer to a command."""
        return self.send(self.request(command, by=by, under=under), at=at).answer

    def renew(self, command: RenewLease, *, by: Caller = RUNTIME, at: int = 0) -> Answer:
        """Renews a lease, which goes past the queue."""
        who = Caller(self.tenant, by.principal, by.kind, by.auth, by.roles)
        outcome = self.until_done(self.replicas[at].sequencer.renew(who, command))
        assert not isinstance(outcome, Failure), outcome
        return outcome

    def sweep(self, *, at: int = 0) -> int:
        """Lets a server sweep the log."""
        return self.until_done(self.replicas[at].sweep.sweep(self.log))

    # What stands

    def entries(self, run: str = "") -> list[Entry]:
        """The log's entries, or those of one run."""
        found = entries_of(self.store, self.log)
        return [entry for entry in found if not run or entry.run_id == run]

    def types(self, run: str = "") -> list[str]:
        """The types of the entries, in order."""
        return [entry.type for entry in self.entries(run)]

    def run(self, run: str) -> Run:
        """The folded run."""
        with self.store.read() as reading:
            found = self.views.run(reading, self.log, RunId(run))
        assert found is not None
        return found

    def step(self, run: str, step: str) -> Step:
        """The folded step."""
        with self.store.read() as reading:
            steps = self.views.steps(reading, self.log, RunId(run), after=-1, limit=1000)
        return next(each for each in steps if each.id == StepId(step))

    def unknowns(self) -> list[str]:
        """The steps that wait for a decision, in the order of the list."""
        with self.store.read() as reading:
            found = self.views.unknowns(reading, self.log, run="", after=None, limit=100)
        return [f"{each.run}/{each.step}" for _, each in found]

    def close(self) -> None:
        """Stops its servers and judges what they left."""
        ended = [replica.sequencer.drain(10) for replica in self.replicas]
        fatal = [fault for replica in self.replicas for fault in replica.fatal]
        assert not fatal, fatal
        assert all(ended)
        verify_log(self.store, self.log, self.house.keyring)
        verify_access_log(self.store, self.replicas[0].tenants.access(self.tenant))


def content_digest(command: Command) -> bytes:
    """A digest of a command's content as rules section 8 has it: without payloads and nonce."""
    number = list(_content(command).items())
    return request_digest(type(command).__name__, [(1, [repr(pair) for pair in number])])


def _content(value: Any) -> dict[str, Any]:
    return {
        each.name: _plain(getattr(value, each.name))
        for each in fields(value)
        if each.name != "process" and not isinstance(getattr(value, each.name), Payload | None)
    }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value if not isinstance(item, Payload)]
    if is_dataclass(value):
        return _content(value)
    return value


@pytest.fixture(
    scope="session", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def house(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """One database a store for all tests of this process; each test is a tenant of its own."""
    folder = tmp_path_factory.mktemp("house")
    drop: Callable[[], None] = lambda: None  # noqa: E731
    if request.param == "sqlite":
        url = f"sqlite://{folder}/ledger.db"
    else:
        server = request.getfixturevalue("postgres_server")
        name = f"ledger_test_{secrets.token_hex(6)}"
        url = server.create_database(name)
        drop = lambda: server.drop_database(name)  # noqa: E731
    made = House(url, folder)
    yield made
    made.close()
    drop()


@pytest.fixture
def ledger(house: House) -> Iterator[LedgerInProcess]:
    """A new tenant with one server; afterwards everything it wrote is verified."""
    house.clock.reset()
    made = LedgerInProcess(house, Tenant(f"tenant-{secrets.token_hex(6)}"))
    yield made
    house.clock.reset()
    made.close()
