"""The whole log of a running server, verified from what it answers and nothing else; and its access
log, the same way."""

from __future__ import annotations

from ledger.core.entry import Entry, read_entry
from ledger.core.events import check_body
from ledger.core.merkle import Frontier
from ledger.core.proof_check import verify_consistency, verify_inclusion
from ledger.v1 import log_service_pb2 as log_pb
from tests.support.calls import Calls
from tests.support.server_process import LedgerServer

RUNS = log_pb.LOG_NAME_RUNS
ACCESS = log_pb.LOG_NAME_ACCESS


def entries_of(calls: Calls, log: log_pb.LogName.ValueType = RUNS) -> list[Entry]:
    """Every entry, read in pages, each checked as a reader must (formats, section 1). Reading the
    access log adds an entry to it for each page, which is among what is read."""
    found: list[Entry] = []
    while True:
        asked = log_pb.ListEntriesRequest(start=len(found), page_size=500, log=log)
        page = calls.call("ListEntries", asked)
        for answered in page.entries:
            assert answered.index == len(found)
            found.append(read_entry(answered.entry, index=len(found), check_body=check_body))
        if len(found) >= page.size:
            return found


def access_log_of(server: LedgerServer) -> list[Entry]:
    """The access log, read by the embedded admin and verified; its own reading comes last."""
    calls = Calls(server, "admin")
    try:
        entries = entries_of(calls, ACCESS)
        _verify_chains(entries)
        _verify_tree(calls, entries, ACCESS)
    finally:
        calls.close()
    assert all(entry.run_id == "_log" for entry in entries)
    assert all(entry.type.startswith("access.") for entry in entries)
    return entries


def verify_whole_log(server: LedgerServer, *, access: bool = True) -> list[Entry]:
    """Index, origin, time, run chains, request parts and tree of every entry; without `access` only
    of the log, for a store that takes no entry now, and so hands out none of the access log."""
    calls = Calls(server, "admin")
    try:
        entries = entries_of(calls)
        _verify_chains(entries)
        _verify_tree(calls, entries, RUNS)
    finally:
        calls.close()
    assert not any(entry.type.startswith("access.") for entry in entries)
    if access:
        access_log_of(server)
    return entries


def _verify_chains(entries: list[Entry]) -> None:
    heads: dict[str, Entry] = {}
    parts: set[tuple[str, str, int]] = set()
    last_us = 0
    for entry in entries:
        assert entry.origin == entries[0].origin
        assert entry.recorded_at_us >= last_us
        last_us = entry.recorded_at_us
        before = heads.get(entry.run_id)
        assert entry.version == (0 if before is None else before.version + 1)
        assert entry.prev == (None if before is None else before.leaf_hash)
        heads[entry.run_id] = entry
        event = entry.event
        assert isinstance(event["actor"], dict)
        assert isinstance(event["request"], dict)
        request = event["request"]
        assert isinstance(request["part"], int)
        part = (str(event["actor"]["id"]), str(request["id"]), request["part"])
        assert part not in parts, "an event was recorded twice"
        parts.add(part)


def _verify_tree(calls: Calls, entries: list[Entry], log: log_pb.LogName.ValueType) -> None:
    if not entries:
        return
    size = len(entries)
    frontier = Frontier().extend(entry.leaf_hash for entry in entries)
    for index in {0, size // 2, size - 1}:
        asked = log_pb.GetInclusionProofRequest(index=index, tree_size=size, log=log)
        proof = calls.call("GetInclusionProof", asked)
        assert proof.root == frontier.root()
        verify_inclusion(
            leaf=entries[index].leaf_hash,
            index=index,
            size=size,
            proof=list(proof.hashes),
            root=frontier.root(),
        )
    old = size // 2
    if old:
        asked_old = log_pb.GetConsistencyProofRequest(old_size=old, new_size=size, log=log)
        verify_consistency(
            old_size=old,
            old_root=Frontier().extend(e.leaf_hash for e in entries[:old]).root(),
            new_size=size,
            new_root=frontier.root(),
            proof=list(calls.call("GetConsistencyProof", asked_old).hashes),
        )
