"""Checkpoints and receipts over the wire, and a history that was rewound."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ledger.core.checkpoint import open_checkpoint
from ledger.core.merkle import Frontier
from ledger.core.note_key import VerifierKey
from ledger.core.proof_check import verify_consistency
from ledger.core.receipt import verify_receipt
from ledger.v1 import log_service_pb2 as log_pb
from ledger.v1 import run_service_pb2 as pb
from tests.support.calls import (
    TIMEOUT_S,
    Calls,
    complete_request,
    new_id,
    refusal_of_error,
    start_request,
)
from tests.support.server_process import LedgerServer
from tests.support.whole_log import entries_of


def checkpoint_of(calls: Calls) -> tuple[log_pb.GetCheckpointResponse, VerifierKey]:
    """A checkpoint and the key that the server says signed it."""
    answer = calls.call("GetCheckpoint", log_pb.GetCheckpointRequest())
    return answer, VerifierKey.parse(answer.verifier_key)


def test_a_checkpoint_holds_what_was_acknowledged_before(
    runtime: Calls, admin: Calls, run: str
) -> None:
    runtime.driven(run, "s1")
    answer, key = checkpoint_of(admin)
    signed = open_checkpoint(answer.checkpoint.encode(), log_keys=[key]).checkpoint
    entries = entries_of(admin)
    assert signed.size == answer.size == len(entries)
    assert signed.root == Frontier().extend(entry.leaf_hash for entry in entries).root()
    assert signed.origin == entries[0].origin


def test_a_later_checkpoint_continues_an_earlier_one(
    runtime: Calls, admin: Calls, run: str
) -> None:
    runtime.open_run(run)
    first, key = checkpoint_of(admin)
    runtime.acquire(run)
    second, _ = checkpoint_of(admin)
    old = open_checkpoint(first.checkpoint.encode(), log_keys=[key]).checkpoint
    new = open_checkpoint(second.checkpoint.encode(), log_keys=[key]).checkpoint
    asked = log_pb.GetConsistencyProofRequest(old_size=old.size, new_size=new.size)
    proof = admin.call("GetConsistencyProof", asked)
    verify_consistency(
        old_size=old.size,
        new_size=new.size,
        old_root=old.root,
        new_root=new.root,
        proof=list(proof.hashes),
    )


def test_a_wanted_receipt_comes_with_the_answer_and_needs_no_server(
    runtime: Calls, admin: Calls, run: str
) -> None:
    token = runtime.driven(run, "s1")
    runtime.start(run, "s1", token)
    completed = runtime.complete(run, "s1", token, receipt=True)
    _, key = checkpoint_of(admin)
    proven = verify_receipt(completed.append.receipt.encode(), log_keys=[key])
    assert proven.entry.index == completed.append.index
    assert proven.entry.leaf_hash == completed.append.leaf_hash
    assert proven.entry.type == "step.completed"


def test_receipts_come_with_the_answers_of_one_message(
    runtime: Calls, admin: Calls, run: str
) -> None:
    token = runtime.driven(run, "s1")
    commands = [
        pb.Command(start_step=start_request(run, "s1", token, receipt=True)),
        pb.Command(complete_step=complete_request(run, "s1", token, receipt=True)),
    ]
    started, completed = runtime.call("Submit", pb.SubmitRequest(commands=commands)).results
    _, key = checkpoint_of(admin)
    for append in (started.start_step.append, completed.complete_step.append):
        proven = verify_receipt(append.receipt.encode(), log_keys=[key])
        assert proven.entry.index == append.index


def test_a_receipt_comes_at_any_later_time_by_request_id_or_index(
    runtime: Calls, admin: Calls, run: str
) -> None:
    request_id = new_id()
    opened = runtime.open_run(run, request_id=request_id)
    own = runtime.call("GetReceipt", log_pb.GetReceiptRequest(request_id=request_id))
    any_index = admin.call("GetReceipt", log_pb.GetReceiptRequest(index=opened.append.index))
    _, key = checkpoint_of(admin)
    for answer in (own, any_index):
        assert answer.index == opened.append.index
        proven = verify_receipt(answer.receipt.encode(), log_keys=[key])
        assert proven.entry.leaf_hash == opened.append.leaf_hash
    others = admin.refused("GetReceipt", log_pb.GetReceiptRequest(request_id=request_id))
    assert others.code is grpc.StatusCode.NOT_FOUND
    beyond = admin.refused("GetReceipt", log_pb.GetReceiptRequest(index=1_000_000))
    assert beyond.code is grpc.StatusCode.NOT_FOUND


@pytest.fixture
def rewound_server(tmp_path: Path) -> Iterator[LedgerServer]:
    """A server whose database was replaced by an older copy of itself."""
    server = LedgerServer(tmp_path / "server").start()
    try:
        calls = Calls(server)
        calls.open_run("run-1")
        server.stop()
        shutil.copy(server.folder / "ledger.db", tmp_path / "older.db")
        server.start()
        calls.open_run("run-2")
        server.stop()
        calls.close()
        for left in server.folder.glob("ledger.db*"):
            left.unlink()
        shutil.copy(tmp_path / "older.db", server.folder / "ledger.db")
        yield server.start()
    finally:
        server.close()


def test_a_rewound_log_is_read_but_neither_appended_to_nor_signed(
    rewound_server: LedgerServer,
) -> None:
    calls, admin = Calls(rewound_server), Calls(rewound_server, "admin")
    refused = calls.refused("OpenRun", pb.OpenRunRequest(request_id=new_id(), run="run-3"))
    assert (refused.code, refused.reason) == (grpc.StatusCode.DATA_LOSS, "HISTORY_REWOUND")
    assert refused.durability == "NOT_COMMITTED"
    unsigned = admin.refused("GetCheckpoint", log_pb.GetCheckpointRequest())
    assert unsigned.reason == "NOT_SIGNING"
    assert "pin" in unsigned.message
    assert [found.run for found in calls.call("ListRuns", pb.ListRunsRequest()).runs] == ["run-1"]
    with rewound_server.channel() as channel:
        check = health_pb2_grpc.HealthStub(channel).Check  # type: ignore[attr-defined]
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
            if answer.status == health_pb2.HealthCheckResponse.NOT_SERVING:
                break
            assert time.monotonic() < deadline
            time.sleep(0.05)  # pause: between looks at the health
    calls.close()
    admin.close()


def test_what_a_refused_server_says_of_a_lease_is_the_same(rewound_server: LedgerServer) -> None:
    calls = Calls(rewound_server)
    request = pb.RenewLeaseRequest(run="run-1", token=1, process="process-0123456789")
    with pytest.raises(grpc.RpcError) as caught:
        calls.call("RenewLease", request)
    assert refusal_of_error(caught.value).reason == "HISTORY_REWOUND"
    calls.close()
