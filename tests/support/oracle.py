"""What must hold of a tenant's log after anything at all, judged without the product's own fold.

`verify_log` reads every row of the tenant's log and of what hangs on it, recomputes the hashes with
hashlib alone, follows the machine of the contract by a small model of its own (`oracle_model`),
and last compares the inline projections with a rebuild.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ledger.core.entry import Entry, read_entry
from ledger.core.events import check_body
from ledger.core.ids import LEDGER_ACTOR
from ledger.core.log import Log
from ledger.core.merkle import Frontier
from ledger.core.run_events import SealedRef
from ledger.keyring import Keyring
from ledger.store.interface import Reading, Store
from ledger.store.tables import ACCESS_REQUESTS, ENTRIES, PAYLOADS, REQUESTS, TILES, Row, Table
from ledger.vault import Gone, Vault
from projections.rebuild import Rebuild, differences
from tests.support.oracle_model import check_history

ROWS_MAX = 50_000


def all_rows(reading: Reading, table: Table, **equal: str | int) -> list[Row]:
    """Every row with those columns, by primary key. Fails where there are more than 50,000."""
    rows = reading.page(table, equal=equal, order=table.key, limit=ROWS_MAX)
    assert len(rows) < ROWS_MAX
    return rows


def entries_of(store: Store, log: Log) -> list[Entry]:
    """Every entry of the log, each checked as a reader must (formats, section 1)."""
    with store.read() as reading:
        rows = all_rows(reading, ENTRIES, log=log.number)
    return [
        read_entry(_octets(row[5]), origin=log.origin, index=at, check_body=check_body)
        for at, row in enumerate(rows)
    ]


def verify_log(store: Store, log: Log, keyring: Keyring) -> list[Entry]:
    """Everything that must hold of the log; answers its entries."""
    with store.read() as reading:
        rows = all_rows(reading, ENTRIES, log=log.number)
        entries = []
        for at, row in enumerate(rows):
            entry = read_entry(_octets(row[5]), origin=log.origin, index=at, check_body=check_body)
            assert row == (
                log.number,
                at,
                entry.run_id,
                entry.version,
                entry.type,
                entry.raw,
                hashlib.sha256(b"\x00" + entry.raw).digest(),
            )
            entries.append(entry)
        _check_chains(entries)
        _check_tree(reading, log, entries)
        _check_payloads(reading, log, entries, Vault(keyring))
        _check_requests(reading, log, entries)
        check_history(entries)
        _check_projections(reading, log, entries, Vault(keyring))
    return entries


def verify_access_log(store: Store, log: Log) -> list[Entry]:
    """Everything that must hold of an access log; answers its entries."""
    with store.read() as reading:
        rows = all_rows(reading, ENTRIES, log=log.number)
        entries = entries_of(store, log)
        kept = all_rows(reading, ACCESS_REQUESTS, log=log.number)
        assert [(row[1], row[2], row[3], row[5], row[6]) for row in rows] == [
            (at, "_log", at, entry.raw, hashlib.sha256(b"\x00" + entry.raw).digest())
            for at, entry in enumerate(entries)
        ]
        _check_chains(entries)
        _check_tree(reading, log, entries)
    parts: set[tuple[str, str, int]] = set()
    for entry in entries:
        event: Any = entry.event
        assert entry.type.startswith("access.")
        assert event["payloads"] == []
        part = (event["actor"]["id"], event["request"]["id"], event["request"]["part"])
        assert part not in parts, "an access was recorded twice"
        parts.add(part)
    for _, principal, request_id, at_part, event_type, index in kept:
        assert (principal, request_id, at_part) in parts
        assert entries[int(index or 0)].type == event_type
    return entries


def _check_chains(entries: Sequence[Entry]) -> None:
    heads: dict[str, Entry] = {}
    for entry in entries:
        before = heads.get(entry.run_id)
        assert entry.version == (0 if before is None else before.version + 1)
        assert entry.prev == (None if before is None else before.leaf_hash)
        heads[entry.run_id] = entry
    for earlier, later in pairwise(entries):
        assert earlier.recorded_at_us <= later.recorded_at_us


def tree_hash(leaves: Sequence[bytes]) -> bytes:
    """RFC 6962, section 2.1, as it is written there."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\x01" + tree_hash(leaves[:split]) + tree_hash(leaves[split:])).digest()


def _check_tree(reading: Reading, log: Log, entries: Sequence[Entry]) -> None:
    head = reading.head(log.number)
    leaves = [entry.leaf_hash for entry in entries]
    assert head.size == len(entries)
    assert head.origin == log.origin
    frontier = Frontier.from_bytes(head.frontier)
    assert (frontier.size, frontier.root()) == (len(leaves), tree_hash(leaves))
    if entries:
        assert head.time_us == entries[-1].recorded_at_us
    tiles = {(row[1], row[2]): row[3] for row in all_rows(reading, TILES, log=log.number)}
    expected: dict[tuple[int, int], bytes] = {}
    level, hashes = 0, leaves
    while hashes:
        full = len(hashes) // 256
        shown = full if level == 0 else (len(hashes) + 255) // 256
        for at in range(shown):
            expected[(level, at)] = b"".join(hashes[at * 256 : (at + 1) * 256])
        hashes = [tree_hash(hashes[at * 256 : (at + 1) * 256]) for at in range(full)]
        level += 1
    assert tiles == expected


def payload_refs(entry: Entry) -> list[dict[str, Any]]:
    """The payloads that an entry names."""
    listed = entry.event["payloads"]
    assert isinstance(listed, list)
    return [ref for ref in listed if isinstance(ref, dict)]


def _check_payloads(reading: Reading, log: Log, entries: Sequence[Entry], vault: Vault) -> None:
    stored = {_octets(row[1]).hex(): row for row in all_rows(reading, PAYLOADS, log=log.number)}
    named = {ref["id"]: (entry, ref) for entry in entries for ref in payload_refs(entry)}
    assert stored.keys() == named.keys()
    for payload_id, (entry, ref) in named.items():
        row = stored[payload_id]
        expected = (entry.index, ref["name"], ref["key"], ref["media_type"])
        assert row[2:6] == expected
        opened = vault.open(reading, log, payload_id)
        if isinstance(opened, Gone):
            continue
        length = len(opened.content).to_bytes(8, "big")
        committed = b"ledger.payload.v1\x00" + opened.salt + length + opened.content
        assert hashlib.sha256(committed).hexdigest() == ref["commitment"]


def _check_requests(reading: Reading, log: Log, entries: Sequence[Entry]) -> None:
    """One row for each (principal, request id) that appended, and equal to its entries."""
    made: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    own: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        actor, request = _members(entry, "actor"), _members(entry, "request")
        if actor["id"] == LEDGER_ACTOR or entry.type == "tool.declared":
            # One random id for each cause: its entries are of one run and one moment.
            assert request["part"] == len(own[request["id"]])
            own[request["id"]].append(entry)
            continue
        made[(actor["id"], request["id"])].append(entry)
    for caused in own.values():
        assert len({(entry.run_id, entry.recorded_at_us) for entry in caused}) == 1
    rows = {(row[1], row[2]): row for row in all_rows(reading, REQUESTS, tenant=log.tenant)}
    assert rows.keys() == made.keys()
    for at, parts in made.items():
        row, last = rows[at], parts[-1]
        requests = [_members(entry, "request") for entry in parts]
        assert [request["part"] for request in requests] == list(range(len(parts)))
        assert {request["digest"] for request in requests} == {_octets(row[4]).hex()}
        assert len({entry.recorded_at_us for entry in parts}) == 1
        expected = (
            log.number,
            parts[0].index,
            last.index,
            len(parts),
            last.leaf_hash,
            last.recorded_at_us,
        )
        assert row[5:11] == expected


def _check_projections(reading: Reading, log: Log, entries: Sequence[Entry], vault: Vault) -> None:
    def of_arguments(ref: SealedRef, tool: str) -> bytes:
        opened = vault.open(reading, log, ref.id)
        if isinstance(opened, Gone):
            return b""
        key = vault.fingerprint_under(
            reading, log, key_id=ref.key_id, tool=tool, content=opened.content
        )
        return key or b""

    rebuild = Rebuild(log, fingerprint=of_arguments)
    for entry in entries:
        rebuild.take(entry.raw)
    found = differences(reading, log, rebuild.rows())
    assert not found, "\n".join(str(each) for each in found)


def _members(entry: Entry, name: str) -> dict[str, Any]:
    value = entry.event[name]
    assert isinstance(value, dict)
    return value


def _octets(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value
