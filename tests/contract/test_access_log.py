"""The access log: what is recorded of access, how often, and that it comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ledger.access import AccessLogs
from ledger.access_appending import AccessNotRecorded
from ledger.access_door import AccessDoor
from ledger.access_settings import AccessSettings
from ledger.batch import random_request_id
from ledger.core.access import Access, actor_of
from ledger.core.answers import Answered
from ledger.core.commands import (
    AcquireLease,
    BreakLease,
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
    Origin,
    RequestId,
    RunId,
    StepId,
    Tenant,
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
from ledger.store.errors import CommitUnknown, StoreUnavailable
from ledger.store.interface import Store
from ledger.store.settings import StoreSettings
from ledger.store.tables import ACCESS_LOGS, ENTRIES, HEADS
from ledger.tenants import Tenants, access_origin, random_origin
from ledger.threads import Threads
from ledger.vault import Vault
from tests.support.in_process import ADMIN, AUDITOR, P1, RUNTIME, LedgerInProcess
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


# Refusals


def test_a_refused_plan_stands_in_the_access_log_with_its_request(
    ledger: LedgerInProcess, access: Server
) -> None:
    driven(ledger)
    size = len(ledger.entries())
    request = ledger.request(plan(1, arguments=b'{"other":1}'))
    assert reasons(access.submit(request)) == [Reason.PLAN_MISMATCH]
    (entry,) = access.entries()
    event: Any = entry.event
    assert event["body"] == {
        "method": "PlanSteps",
        "reason": "PLAN_MISMATCH",
        "run": RUN,
        "step": "s1",
    }
    assert event["request"] == {"id": request.id, "digest": request.digest.hex(), "part": 0}
    assert event["actor"] == {
        "id": RUNTIME.principal,
        "kind": "runtime",
        "auth": "embedded",
        "role": "drive",
    }
    assert len(ledger.entries()) == size


def test_a_refusal_for_a_missing_role_names_no_role(
    ledger: LedgerInProcess, access: Server
) -> None:
    outcomes = access.submit(ledger.request(OpenRun(RUN), by=AUDITOR))
    assert reasons(outcomes) == [Reason.ROLE_MISSING]
    (entry,) = access.entries()
    event: Any = entry.event
    assert (event["actor"]["id"], event["actor"]["role"]) == (AUDITOR.principal, "none")


def test_a_refusal_of_another_kind_is_not_recorded(ledger: LedgerInProcess, access: Server) -> None:
    outcomes = access.submit(ledger.request(AcquireLease(RUN, HolderName("host"), P1)))
    assert reasons(outcomes) == [Reason.RUN_NOT_FOUND]
    assert access.entries() == []


def test_a_repeated_refusal_is_recorded_once_on_whichever_server(
    ledger: LedgerInProcess, opened: OpenAccess
) -> None:
    ledger.replica()
    request = ledger.request(OpenRun(RUN), by=AUDITOR)
    for server in (opened(), opened(at=1), opened()):
        for _ in range(2):
            assert reasons(server.submit(request)) == [Reason.ROLE_MISSING]
    assert len(server.entries()) == 1


def test_two_servers_that_record_the_same_refusal_at_once_record_it_once(
    ledger: LedgerInProcess, opened: OpenAccess
) -> None:
    ledger.replica()
    one, other = opened(), opened(at=1)
    accesses = [refusal(ledger) for _ in range(20)]

    async def both() -> None:
        await asyncio.gather(
            *(
                server.logs.record_refusals(ledger.tenant, [access])
                for access in accesses
                for server in (one, other)
            )
        )

    ledger.until_done(both())
    assert len(one.entries()) == 20


def test_a_refused_request_may_be_sent_again_with_other_content(
    ledger: LedgerInProcess, access: Server
) -> None:
    """What is recorded of access is nothing that the request appended (rules, section 10)."""
    driven(ledger)
    under = random_request_id()
    wrong = ledger.request(plan(1, arguments=b'{"other":1}'), under=under)
    assert reasons(access.submit(wrong)) == [Reason.PLAN_MISMATCH]
    mended = ledger.request(OpenRun(RunId("run-2")), under=under)
    assert reasons(access.submit(mended)) == [None]
    assert reasons(access.submit(wrong)) == [Reason.REQUEST_REUSED]


def test_all_refusals_of_a_message_are_recorded_by_one_commit(
    ledger: LedgerInProcess, access: Server
) -> None:
    requests = [ledger.request(OpenRun(RunId(f"r{n}")), by=AUDITOR) for n in range(30)]
    allowed = ledger.request(OpenRun(RUN))
    outcomes = access.submit(*requests, allowed)
    assert reasons(outcomes) == [Reason.ROLE_MISSING] * 30 + [None]
    entries = access.entries()
    assert len(entries) == 30
    assert len({entry.recorded_at_us for entry in entries}) == 1


def test_refusals_beyond_the_rate_are_counted_and_the_count_is_recorded(
    ledger: LedgerInProcess, opened: OpenAccess
) -> None:
    access = opened(refusals_per_minute_max=3)
    for _ in range(10):
        access.refused(refusal(ledger))
    access.refused(refusal(ledger, by=AUDITOR))
    assert len(access.bodies("access.refused")) == 4
    (counted,) = access.bodies("access.suppressed")
    assert (counted["principal"], counted["count"]) == (RUNTIME.principal, 7)
    access.now_s += 20
    access.refused(refusal(ledger), refusal(ledger))
    access.close()
    assert len(access.bodies("access.refused")) == 5
    assert [each["count"] for each in access.bodies("access.suppressed")] == [7, 1]


def test_a_counted_refusal_is_not_lost_while_the_store_fails(
    ledger: LedgerInProcess, opened: OpenAccess
) -> None:
    access = opened(refusals_per_minute_max=1)
    access.refused(refusal(ledger))
    access.refused(refusal(ledger))
    access.logs.close_log(access.log)
    ledger.until_done(access.logs.write_counts())
    assert access.bodies("access.suppressed") == []
    again = opened(refusals_per_minute_max=1)
    again.refused(refusal(ledger))
    assert len(again.bodies("access.refused")) == 2


# Reads


def test_each_read_is_recorded(ledger: LedgerInProcess, access: Server) -> None:
    one = read(ledger)
    access.read(one)
    access.read(read(ledger))
    first, _ = access.entries()
    event: Any = first.event
    assert event["body"]["origin"] == ledger.log.origin
    assert event["request"]["id"] == one.request_id


def test_reads_beyond_the_rate_are_refused_and_never_only_counted(
    ledger: LedgerInProcess, opened: OpenAccess
) -> None:
    access = opened(reads_per_minute_max=2)
    access.read(read(ledger))
    access.read(read(ledger))
    with pytest.raises(AccessNotRecorded, match="faster") as told:
        access.read(read(ledger))
    assert told.value.too_fast
    assert told.value.retry_after_ms == 30_000
    access.now_s += 30
    access.read(read(ledger))
    assert [entry.type for entry in access.entries()] == ["access.payload_read"] * 3


# Administrators


def test_an_administrators_act_is_recorded_before_it_is_done(
    ledger: LedgerInProcess, access: Server
) -> None:
    driven(ledger)
    request = ledger.request(BreakLease(RUN, "stuck"), by=ADMIN)
    assert reasons(access.submit(request)) == [None]
    (entry,) = access.entries()
    assert entry.event["body"] == {"act": "BreakLease", "run": RUN}
    broken = ledger.entries(RUN)[-1]
    assert broken.type == "lease.broken"
    assert entry.recorded_at_us <= broken.recorded_at_us
    assert reasons(access.submit(request)) == [None]
    assert len(access.entries()) == 1


def test_what_one_request_has_recorded_stands_in_parts(
    ledger: LedgerInProcess, access: Server
) -> None:
    """First refused for its role, then, with the role given, done."""
    driven(ledger)
    under = random_request_id()
    without = replace(ADMIN, roles=frozenset({Role.READ}))
    for by, told in ((without, Reason.ROLE_MISSING), (ADMIN, None)):
        outcome = access.submit(ledger.request(BreakLease(RUN, "stuck"), by=by, under=under))
        assert reasons(outcome) == [told]
    events: list[Any] = [entry.event for entry in access.entries()]
    assert [(it["type"], it["request"]["part"]) for it in events] == [
        ("access.refused", 0),
        ("access.administered", 1),
    ]


def test_an_act_that_cannot_be_recorded_is_not_done(
    ledger: LedgerInProcess, access: Server
) -> None:
    driven(ledger)
    size = len(ledger.entries())
    access.logs.close_log(access.log)
    outcomes = access.submit(ledger.request(BreakLease(RUN, "stuck"), by=ADMIN))
    assert reasons(outcomes) == [FailureKind.ACCESS_NOT_RECORDED]
    assert len(ledger.entries()) == size


# Faults of the store


class Trouble:
    """A store whose next commit fails as told, once."""

    def __init__(self) -> None:
        self.armed: tuple[str, type[Exception]] | None = None

    def arm(self, moment: str, why: type[Exception]) -> None:
        """From now on."""
        self.armed = (moment, why)

    def is_spent(self) -> bool:
        """Whether what was armed has happened."""
        return self.armed is None

    def observe(self, moment: str, kind: str) -> None:
        """Raises where it was armed."""
        if self.armed is not None and (moment, kind) == (self.armed[0], "commit"):
            why, self.armed = self.armed[1], None
            raise why("as told")


@pytest.fixture
def fragile(house: Any) -> Iterator[tuple[Store, Trouble]]:
    """One more connection to the database, with trouble."""
    trouble = Trouble()
    store = house.another(StoreSettings(observe=trouble.observe))
    yield store, trouble
    store.close()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_commit_without_an_answer_is_looked_up(
    ledger: LedgerInProcess, opened: OpenAccess, fragile: tuple[Store, Trouble], moment: str
) -> None:
    """It failed: the caller asks again. It failed but stands: it was recorded, once."""
    store, trouble = fragile
    access = opened(store=store)
    access.refused(refusal(ledger))
    again = refusal(ledger)
    trouble.arm(moment, CommitUnknown)
    if moment == "before":
        with pytest.raises(AccessNotRecorded):
            access.refused(again)
        assert len(access.entries()) == 1
    access.refused(again)
    assert trouble.is_spent()
    assert len(access.entries()) == 2


def test_a_passing_trouble_of_the_store_is_tried_again(
    ledger: LedgerInProcess, opened: OpenAccess, fragile: tuple[Store, Trouble]
) -> None:
    store, trouble = fragile
    access = opened(store=store)
    trouble.arm("before", StoreUnavailable)
    access.refused(refusal(ledger))
    assert trouble.is_spent()
    assert len(access.entries()) == 1


def test_a_refusal_that_cannot_be_recorded_is_answered_so_and_its_neighbours_are_not(
    ledger: LedgerInProcess, access: Server
) -> None:
    access.logs.close_log(access.log)
    outcomes = access.submit(
        ledger.request(OpenRun(RUN)), ledger.request(OpenRun(RunId("r2")), by=AUDITOR)
    )
    assert reasons(outcomes) == [None, FailureKind.ACCESS_NOT_RECORDED]
    assert isinstance(outcomes[0], Answered)
    assert access.entries() == []


def test_a_log_that_lost_what_this_server_recorded_is_found(
    ledger: LedgerInProcess, opened: OpenAccess
) -> None:
    access = opened()
    access.refused(refusal(ledger))
    log = access.log
    with ledger.store.change() as changing:
        kept = changing.get(ENTRIES, [(log.number, 0)])
        head = changing.get(HEADS, [(log.number,)])
        changing.delete(ENTRIES, [(log.number, 0)])
        changing.upsert(HEADS, [(log.number, log.origin, 0, bytes(8), 0)])
    try:
        with pytest.raises(AccessNotRecorded, match="pin a checkpoint"):
            access.refused(refusal(ledger))
    finally:
        with ledger.store.change() as changing:
            changing.upsert(ENTRIES, kept)
            changing.upsert(HEADS, head)


def test_many_entries_of_two_servers_make_one_tree(
    ledger: LedgerInProcess, opened: OpenAccess
) -> None:
    ledger.replica()
    servers = [opened(refusals_per_minute_max=400), opened(at=1, refusals_per_minute_max=400)]

    async def all_of_them() -> None:
        await asyncio.gather(
            *(
                server.logs.record_refusals(ledger.tenant, [refusal(ledger) for _ in range(30)])
                for _ in range(10)
                for server in servers
            )
        )

    ledger.until_done(all_of_them())
    assert len(servers[0].entries()) == 600


# The log itself


def test_a_tenant_of_an_older_release_gets_its_access_log(ledger: LedgerInProcess) -> None:
    log = ledger.replicas[0].tenants.access(ledger.tenant)
    assert log.origin == f"{ledger.log.origin}/access"
    with ledger.store.change() as changing:
        changing.delete(ACCESS_LOGS, [(ledger.tenant,)])
        changing.delete(HEADS, [(log.number,)])
    made = [_tenants(ledger).access(ledger.tenant) for _ in range(2)]
    assert made[0] == made[1]
    assert made[0].origin == log.origin
    ledger.replicas[0].tenants = _tenants(ledger)


def test_an_access_log_whose_name_is_taken_gets_another_one(ledger: LedgerInProcess) -> None:
    with ledger.store.change() as changing:
        changing.delete(ACCESS_LOGS, [(ledger.tenant,)])
    made = _tenants(ledger).access(ledger.tenant)
    assert made.origin != access_origin(ledger.log.origin)
    assert made.origin.endswith("/access")
    ledger.replicas[0].tenants = _tenants(ledger)


def test_a_name_that_leaves_no_room_for_the_access_log_is_refused(
    ledger: LedgerInProcess,
) -> None:
    with pytest.raises(ValueError, match="origin"):
        _tenants(ledger).new(Tenant("long"), Origin("a" * 250))
    assert _tenants(ledger).new(Tenant(random_request_id()), random_origin()).origin


def _tenants(ledger: LedgerInProcess) -> Tenants:
    return Tenants(ledger.store, Vault(ledger.house.keyring))
