"""The access log over the wire: recorded before it is answered, read by auditors alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from ledger.core.checkpoint import open_checkpoint
from ledger.core.note_key import VerifierKey
from ledger.core.receipt import verify_receipt
from ledger.service.recording import read_digest, request_kinds
from ledger.service.roles import READ_ROLES
from ledger.v1 import log_service_pb2 as log_pb
from ledger.v1 import run_service_pb2 as pb
from tests.support.calls import PROCESS, Calls, new_id, payload, planned, refusal_of_error
from tests.support.server_process import LedgerServer
from tests.support.whole_log import ACCESS, access_log_of, entries_of

ARGUMENTS = b'{"step":"s1"}'


@pytest.fixture
def confirmer(running_server: LedgerServer) -> Iterator[Calls]:
    """The embedded confirmer's calls."""
    calls = Calls(running_server, "confirmer")
    yield calls
    calls.close()


def bodies(server: LedgerServer, event_type: str) -> list[Any]:
    """(principal, body) of the access log's entries of a type."""
    found: list[Any] = []
    for entry in access_log_of(server):
        event: Any = entry.event
        if entry.type == event_type:
            found.append((event["actor"]["id"], event["body"]))
    return found


def planned_payload(reader: Calls, run: str) -> tuple[int, str]:
    """Index of the run's last entry, and the id of the one payload it names."""
    page = reader.call("ListRunEntries", log_pb.ListRunEntriesRequest(run=run))
    entry = page.entries[-1]
    (payload_id,) = re.findall(rb'"id":"([0-9a-f]{32})"', entry.entry)
    return entry.index, payload_id.decode()


@pytest.mark.parametrize("principal", ["reviewer", "confirmer", "admin"])
def test_a_payload_is_handed_out_and_who_read_it_is_recorded(
    running_server: LedgerServer, runtime: Calls, run: str, principal: str
) -> None:
    runtime.driven(run, "s1")
    calls = Calls(running_server, principal)
    index, payload_id = planned_payload(calls, run)
    answer = calls.call("GetPayload", log_pb.GetPayloadRequest(index=index, payload_id=payload_id))
    assert answer.payload.content == ARGUMENTS
    assert len(answer.salt) == 32
    origin = entries_of(calls)[0].origin
    read = {
        "origin": origin, "index": index, "payload": payload_id, "name": "arguments", "run": run,
    }  # fmt: skip
    assert bodies(running_server, "access.payload_read").count((principal, read)) == 1
    calls.close()


def test_a_payload_that_no_entry_names_is_not_recorded(
    running_server: LedgerServer, reviewer: Calls, runtime: Calls, run: str
) -> None:
    runtime.driven(run, "s1")
    index, _ = planned_payload(reviewer, run)
    before = len(bodies(running_server, "access.payload_read"))
    absent = log_pb.GetPayloadRequest(index=index, payload_id="0" * 32)
    assert reviewer.refused("GetPayload", absent).code is grpc.StatusCode.NOT_FOUND
    assert len(bodies(running_server, "access.payload_read")) == before


def test_a_refused_reader_is_recorded_and_gets_nothing(
    running_server: LedgerServer, reviewer: Calls, runtime: Calls, run: str
) -> None:
    runtime.driven(run, "s1")
    index, payload_id = planned_payload(reviewer, run)
    before = len(bodies(running_server, "access.refused"))
    asked = log_pb.GetPayloadRequest(index=index, payload_id=payload_id)
    assert runtime.refused("GetPayload", asked).reason == "ROLE_MISSING"
    refused = bodies(running_server, "access.refused")
    assert refused[before:] == [("runtime", {"method": "GetPayload", "reason": "ROLE_MISSING"})]


def test_a_refused_command_is_recorded_once_however_often_it_is_sent(
    running_server: LedgerServer, runtime: Calls, run: str
) -> None:
    token = runtime.driven(run, "s1")
    other = pb.PlanStepsRequest(
        request_id=new_id(), run=run, token=token, process=PROCESS,
        steps=[planned("s1", arguments=payload(b'{"other":1}'))],
    )  # fmt: skip
    for _ in range(3):
        assert runtime.refused("PlanSteps", other).reason == "PLAN_MISMATCH"
    told = {"method": "PlanSteps", "reason": "PLAN_MISMATCH", "run": run, "step": "s1"}
    assert bodies(running_server, "access.refused").count(("runtime", told)) == 1


def test_each_refusal_inside_a_message_is_recorded(
    running_server: LedgerServer, reviewer: Calls, run: str
) -> None:
    commands = [
        pb.Command(open_run=pb.OpenRunRequest(request_id=new_id(), run=f"{run}-{number}"))
        for number in range(3)
    ]
    answer = reviewer.call("Submit", pb.SubmitRequest(commands=commands))
    assert len(answer.results) == 3
    refused = [body["run"] for _, body in bodies(running_server, "access.refused") if "run" in body]
    assert [name for name in refused if name.startswith(run)] == [f"{run}-{n}" for n in range(3)]


def test_renewing_a_lease_needs_the_role_of_a_driver(
    running_server: LedgerServer, runtime: Calls, reviewer: Calls, run: str
) -> None:
    token = runtime.driven(run)
    renew = pb.RenewLeaseRequest(run=run, token=token, process=PROCESS)
    assert reviewer.refused("RenewLease", renew).reason == "ROLE_MISSING"
    assert ("reviewer", {"method": "RenewLease", "reason": "ROLE_MISSING"}) in bodies(
        running_server, "access.refused"
    )
    runtime.call("RenewLease", renew)


def test_an_administrators_act_is_recorded(
    running_server: LedgerServer, runtime: Calls, admin: Calls, run: str
) -> None:
    runtime.driven(run)
    admin.call("BreakLease", pb.BreakLeaseRequest(request_id=new_id(), run=run, reason="stuck"))
    acts = bodies(running_server, "access.administered")
    assert acts.count(("admin", {"act": "BreakLease", "run": run})) == 1


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("ListEntries", log_pb.ListEntriesRequest(log=ACCESS)),
        ("GetReceipt", log_pb.GetReceiptRequest(index=0, log=ACCESS)),
        ("GetCheckpoint", log_pb.GetCheckpointRequest(log=ACCESS)),
        ("GetInclusionProof", log_pb.GetInclusionProofRequest(log=ACCESS)),
        ("GetConsistencyProof", log_pb.GetConsistencyProofRequest(log=ACCESS)),
    ],
)
def test_only_an_auditor_may_look_at_the_access_log(
    running_server: LedgerServer, reviewer: Calls, method: str, message: Any
) -> None:
    refused = reviewer.refused(method, message)
    assert (refused.reason, refused.facts["roles"]) == ("ROLE_MISSING", "audit")
    assert bodies(running_server, "access.refused")[-1] == (
        "reviewer",
        {"method": method, "reason": "ROLE_MISSING"},
    )


def test_following_the_access_log_is_for_auditors(reviewer: Calls) -> None:
    asked = log_pb.FollowEntriesRequest(until_head=True, log=ACCESS)
    with pytest.raises(grpc.RpcError) as told:
        list(reviewer.log_stub.FollowEntries(asked, metadata=reviewer._metadata, timeout=20))
    assert refusal_of_error(told.value).reason == "ROLE_MISSING"


def test_reading_the_access_log_is_recorded_before_it_is_answered(admin: Calls) -> None:
    before = len(entries_of(admin, ACCESS))
    page = admin.call("ListEntries", log_pb.ListEntriesRequest(start=before, log=ACCESS))
    (own,) = page.entries
    assert own.index == before
    assert b'"body":{"method":"ListEntries","start":%d}' % before in own.entry
    asked = log_pb.FollowEntriesRequest(start=before + 1, until_head=True, log=ACCESS)
    followed = list(admin.log_stub.FollowEntries(asked, metadata=admin._metadata, timeout=20))
    (entry,) = followed[0].entries
    assert b'"method":"FollowEntries"' in entry.entry
    receipt = admin.call("GetReceipt", log_pb.GetReceiptRequest(index=before, log=ACCESS))
    assert receipt.index == before
    assert b'"method":"GetReceipt"' in entries_of(admin, ACCESS)[before + 2].raw


def test_a_receipt_of_the_access_log_verifies_under_its_own_key(
    running_server: LedgerServer, admin: Calls
) -> None:
    entries = access_log_of(running_server)
    answer = admin.call("GetCheckpoint", log_pb.GetCheckpointRequest(log=ACCESS))
    key = VerifierKey.parse(answer.verifier_key)
    signed = open_checkpoint(answer.checkpoint.encode(), log_keys=[key]).checkpoint
    assert signed.origin == entries[0].origin == f"{entries_of(admin)[0].origin}/access"
    assert signed.size >= len(entries)
    got = admin.call("GetReceipt", log_pb.GetReceiptRequest(index=0, log=ACCESS))
    verified = verify_receipt(got.receipt.encode(), log_keys=[key])
    assert verified.entry.raw == entries[0].raw


def test_the_access_log_holds_no_request_of_a_client(admin: Calls) -> None:
    asked = log_pb.GetReceiptRequest(request_id=new_id(), log=ACCESS)
    assert admin.refused("GetReceipt", asked).field == "request_id"


@pytest.mark.parametrize("log", [99, -1])
def test_an_unknown_log_is_refused(admin: Calls, log: int) -> None:
    raw = log_pb.ListEntriesRequest.FromString(b"\x18" + _varint(log))
    assert admin.refused("ListEntries", raw).field == "log"


@pytest.mark.parametrize(
    ("purpose", "event_type"),
    [
        (log_pb.READ_PURPOSE_EXPORT, "access.exported"),
        (log_pb.READ_PURPOSE_VERIFY, "access.verified"),
    ],
)
def test_an_export_and_a_verification_are_recorded(
    running_server: LedgerServer,
    admin: Calls,
    runtime: Calls,
    run: str,
    purpose: Any,
    event_type: str,
) -> None:
    runtime.open_run(run)
    driver = Calls(running_server)
    driver.open_run(new_id())
    driver.close()
    before = len(bodies(running_server, event_type))
    admin.call("ListEntries", log_pb.ListEntriesRequest(purpose=purpose))
    asked = log_pb.FollowEntriesRequest(until_head=True, purpose=purpose)
    assert list(admin.log_stub.FollowEntries(asked, metadata=admin._metadata, timeout=20))
    admin.call("ListEntries", log_pb.ListEntriesRequest())
    origin = entries_of(admin)[0].origin
    recorded = bodies(running_server, event_type)[before:]
    assert recorded == [("admin", {"origin": origin, "start": 0})] * 2


def test_reads_that_come_too_fast_are_refused_and_refusals_are_counted(
    start_server: Callable[..., LedgerServer],
) -> None:
    server = start_server(
        LEDGER_ACCESS_READS_PER_MINUTE_MAX="200",
        LEDGER_ACCESS_REFUSALS_PER_MINUTE_MAX="2",
        LEDGER_ACCESS_COUNTS_MS="50",
    )
    runtime, reviewer = Calls(server), Calls(server, "reviewer")
    runtime.driven("r", "s1")
    index, payload_id = planned_payload(reviewer, "r")
    asked = log_pb.GetPayloadRequest(index=index, payload_id=payload_id)
    for _ in range(400):
        try:
            reviewer.call("GetPayload", asked)
        except grpc.RpcError as error:
            refused = refusal_of_error(error)
            break
    else:
        raise AssertionError("400 reads were within a rate of 200 a minute")
    assert refused.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refused.reason == "ACCESS_NOT_RECORDED"
    for _ in range(5):
        assert runtime.refused("ListEntries", log_pb.ListEntriesRequest()).reason == "ROLE_MISSING"
    runtime.close()
    reviewer.close()
    server.stop()
    server.start()
    counted = [body["count"] for _, body in bodies(server, "access.suppressed")]
    assert sum(counted) == 3
    assert len(bodies(server, "access.refused")) == 2


def test_every_read_has_a_digest() -> None:
    for method in READ_ROLES:
        message = request_kinds()[method]()
        assert len(read_digest(method, message)) == 32
    by_index = [log_pb.GetReceiptRequest(index=at) for at in (0, 1)]
    digests = {read_digest("GetReceipt", one) for one in (*by_index, log_pb.GetReceiptRequest())}
    assert len(digests) == 3


def _varint(number: int) -> bytes:
    octets = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*octets, number])
