"""Reading over the wire: pages, watching, the log and its proofs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from ledger.core.entry import read_entry
from ledger.core.merkle import Frontier
from ledger.core.proof_check import verify_inclusion
from ledger.v1 import log_service_pb2 as log_pb
from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import types_pb2
from tests.support.calls import TIMEOUT_S, Calls, new_id, payload, planned, refusal_of_error
from tests.support.server_fixtures import StartServer
from tests.support.server_process import LedgerServer


def stream(calls: Calls, method: str, message: Any) -> Any:
    """A stream of answers."""
    stub = calls.run_stub if hasattr(calls.run_stub, method) else calls.log_stub
    return getattr(stub, method)(message, metadata=calls._metadata, timeout=TIMEOUT_S)


def test_steps_come_in_pages_in_the_order_they_were_planned(runtime: Calls, run: str) -> None:
    token = runtime.driven(run)
    names = [f"s{n}" for n in range(7)]
    runtime.plan(run, token, [planned(name) for name in names])
    found, page_token = [], ""
    sizes = []
    while True:
        page = runtime.call("GetRun", pb.GetRunRequest(run=run, page_size=3, page_token=page_token))
        found += [step.step for step in page.steps]
        sizes.append(len(page.steps))
        page_token = page.next_page_token
        if not page_token:
            break
    assert (found, sizes) == (names, [3, 3, 1])


def test_runs_come_newest_activity_first(runtime: Calls, run: str) -> None:
    names = [f"{run}-{n}" for n in range(3)]
    for name in names:
        runtime.open_run(name)
    runtime.acquire(names[0])
    first = runtime.call("ListRuns", pb.ListRunsRequest(page_size=2))
    assert [found.run for found in first.runs] == [names[0], names[2]]
    second = runtime.call(
        "ListRuns", pb.ListRunsRequest(page_size=2, page_token=first.next_page_token)
    )
    assert second.runs[0].run == names[1]
    assert first.runs[0].lease.live


def test_open_runs_are_listed_alone(runtime: Calls, run: str) -> None:
    token = runtime.driven(run)
    opened = runtime.call("ListRuns", pb.ListRunsRequest(open_only=True))
    assert opened.runs[0].run == run
    runtime.call(
        "CloseRun",
        pb.CloseRunRequest(
            request_id=new_id(),
            run=run,
            token=token,
            process="process-0123456789",
            status=types_pb2.RUN_STATUS_FAILED,
        ),
    )
    left = runtime.call("ListRuns", pb.ListRunsRequest(open_only=True, page_size=1_000))
    assert run not in {found.run for found in left.runs}


def test_a_resume_page_ends_before_it_is_too_large(runtime: Calls, run: str) -> None:
    token = runtime.driven(run)
    for n in range(5):
        runtime.plan(run, token, [planned(f"s{n}", arguments=payload(bytes([n]) * 900_000))])
    found, page_token = [], ""
    while True:
        request = pb.GetResumeStateRequest(
            run=run, token=token, process="process-0123456789", page_token=page_token
        )
        page = runtime.call("GetResumeState", request)
        assert page.ByteSize() < 4 << 20
        found += [(step.step.step, step.arguments.content[:1]) for step in page.steps]
        page_token = page.next_page_token
        if not page_token:
            break
    assert found == [(f"s{n}", bytes([n])) for n in range(5)]


def test_watching_answers_the_state_now_and_after_every_change(runtime: Calls, run: str) -> None:
    token = runtime.driven(run, "s1")
    watched = stream(runtime, "WatchRun", pb.WatchRunRequest(run=run))
    now = next(watched)
    assert [step.step for step in now.steps] == ["s1"]
    runtime.start(run, "s1", token)
    changed = next(watched)
    assert changed.run.version == now.run.version + 1
    assert changed.steps[0].state == types_pb2.STEP_STATE_STARTED
    watched.cancel()
    later = stream(
        runtime, "WatchRun", pb.WatchRunRequest(run=run, after_version=changed.run.version)
    )
    runtime.complete(run, "s1", token)
    assert next(later).steps[0].state == types_pb2.STEP_STATE_SUCCEEDED
    later.cancel()


def test_watching_a_run_that_is_not_there_ends_with_not_found(runtime: Calls, run: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        next(stream(runtime, "WatchRun", pb.WatchRunRequest(run=run)))
    assert refusal_of_error(caught.value).reason == "RUN_NOT_FOUND"


def followed(answers: Iterator[log_pb.FollowEntriesResponse]) -> Iterator[log_pb.LogEntry]:
    """The entries of a stream one by one."""
    for answer in answers:
        yield from answer.entries


def test_following_gives_every_entry_in_order_and_goes_on(
    runtime: Calls, admin: Calls, run: str
) -> None:
    runtime.driven(run, "s1")
    until_head = list(
        followed(stream(admin, "FollowEntries", log_pb.FollowEntriesRequest(until_head=True)))
    )
    assert [entry.index for entry in until_head] == list(range(len(until_head)))
    answers = stream(admin, "FollowEntries", log_pb.FollowEntriesRequest(start=len(until_head)))
    entries = followed(answers)
    opened = runtime.open_run(f"{run}-2")
    entry = next(entries)
    assert entry.index == opened.append.index
    assert read_entry(entry.entry, index=entry.index).leaf_hash == opened.append.leaf_hash
    answers.cancel()


def test_the_entries_of_a_run_come_by_version(runtime: Calls, admin: Calls, run: str) -> None:
    runtime.driven(run, "s1", "s2")
    page = admin.call(
        "ListRunEntries", log_pb.ListRunEntriesRequest(run=run, start_version=1, page_size=2)
    )
    types = [read_entry(entry.entry).type for entry in page.entries]
    assert types == ["lease.acquired", "step.planned"]
    assert page.total_size == 4
    absent = admin.refused("ListRunEntries", log_pb.ListRunEntriesRequest(run=f"{run}-2"))
    assert absent.code is grpc.StatusCode.NOT_FOUND
    of_log = admin.call("ListRunEntries", log_pb.ListRunEntriesRequest(run="_log"))
    assert read_entry(of_log.entries[0].entry).type == "tool.declared"


def test_every_entry_is_proven_at_every_size(runtime: Calls, admin: Calls, run: str) -> None:
    runtime.driven(run, "s1")
    page = admin.call("ListEntries", log_pb.ListEntriesRequest(page_size=40))
    leaves = [read_entry(entry.entry).leaf_hash for entry in page.entries]
    for size in range(1, len(leaves) + 1):
        root = Frontier().extend(leaves[:size]).root()
        for index in {0, size // 2, size - 1}:
            asked = log_pb.GetInclusionProofRequest(index=index, tree_size=size)
            proof = admin.call("GetInclusionProof", asked)
            assert (proof.root, proof.tree_size) == (root, size)
            verify_inclusion(
                leaf=leaves[index], index=index, size=size, proof=list(proof.hashes), root=root
            )


@pytest.mark.parametrize(
    ("method", "message", "field"),
    [
        (
            "GetInclusionProof",
            log_pb.GetInclusionProofRequest(index=1_000_000),
            "index",
        ),
        (
            "GetInclusionProof",
            log_pb.GetInclusionProofRequest(index=0, tree_size=1_000_000),
            "tree_size",
        ),
        (
            "GetConsistencyProof",
            log_pb.GetConsistencyProofRequest(old_size=1_000_000),
            "old_size",
        ),
        (
            "GetConsistencyProof",
            log_pb.GetConsistencyProofRequest(old_size=0, new_size=1_000_000),
            "new_size",
        ),
        ("GetInclusionProof", log_pb.GetInclusionProofRequest(index=-1), "index"),
        ("GetReceipt", log_pb.GetReceiptRequest(), "append"),
        ("GetPayload", log_pb.GetPayloadRequest(payload_id="XY"), "payload_id"),
    ],
)
def test_what_the_log_has_not_is_refused_by_the_field(
    reviewer: Calls, admin: Calls, method: str, message: Any, field: str
) -> None:
    calls = reviewer if method == "GetPayload" else admin
    refused = calls.refused(method, message)
    assert (refused.code, refused.field) == (grpc.StatusCode.INVALID_ARGUMENT, field)


def test_streams_beyond_their_number_are_refused_and_a_closed_one_makes_room(
    start_server: StartServer,
) -> None:
    server: LedgerServer = start_server(LEDGER_STREAMS_MAX="2")
    calls = Calls(server)
    calls.open_run("run-1")
    watched = [stream(calls, "WatchRun", pb.WatchRunRequest(run="run-1")) for _ in range(2)]
    for each in watched:
        next(each)
    with pytest.raises(grpc.RpcError) as caught:
        next(stream(calls, "WatchRun", pb.WatchRunRequest(run="run-1")))
    refused = refusal_of_error(caught.value)
    assert (refused.code, refused.reason) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "STREAMS_EXHAUSTED",
    )
    watched[0].cancel()
    assert next(_retried(calls, "run-1")).run.run == "run-1"
    calls.close()


def _retried(calls: Calls, run: str) -> Any:
    """A stream that is opened as soon as the server has room: a cancelled one is told to it."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        answers = stream(calls, "WatchRun", pb.WatchRunRequest(run=run))
        try:
            first = next(answers)
        except grpc.RpcError:
            assert time.monotonic() < deadline
        else:
            return iter([first])
