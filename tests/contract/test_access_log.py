"""The access log: what is recorded of access, how often, and that it comes first."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ledger.access_appending import AccessNotRecorded
from ledger.batch import random_request_id
from ledger.core.commands import (
    AcquireLease,
    BreakLease,
    OpenRun,
)
from ledger.core.ids import (
    HolderName,
    RunId,
)
from ledger.core.refusals import Reason
from ledger.core.vocabulary import Role
from ledger.failures import FailureKind
from tests.support.accesses import RUN, OpenAccess, Server, driven, plan, read, reasons, refusal
from tests.support.in_process import ADMIN, AUDITOR, P1, RUNTIME, LedgerInProcess

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
