"""The access log under trouble of the store, on several servers, and where it was never made."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ledger.access_appending import AccessNotRecorded
from ledger.batch import random_request_id
from ledger.core.answers import Answered
from ledger.core.commands import (
    OpenRun,
)
from ledger.core.ids import (
    Origin,
    RunId,
    Tenant,
)
from ledger.failures import FailureKind
from ledger.store.errors import CommitUnknown, StoreUnavailable
from ledger.store.interface import Store
from ledger.store.settings import StoreSettings
from ledger.store.tables import ACCESS_LOGS, ENTRIES, HEADS
from ledger.tenants import Tenants, access_origin, random_origin
from ledger.vault import Vault
from tests.support.accesses import RUN, OpenAccess, Server, reasons, refusal
from tests.support.in_process import AUDITOR, LedgerInProcess

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
