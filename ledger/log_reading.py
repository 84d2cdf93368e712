"""Reading the log: entries, proofs from its tiles, receipts, and payloads for disclosure.

Each method reads in one snapshot, so that a proof and what it is about are of one tree size. All of
them block: call them from a thread. Raises what the store raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ledger.core.access import Recorded
from ledger.core.canonical import JsonObject
from ledger.core.commands import Caller
from ledger.core.entry import Entry, read_entry
from ledger.core.errors import InvariantViolation, Malformed
from ledger.core.ids import RequestId
from ledger.core.log import Log
from ledger.core.proving import Node, consistency_proof, inclusion_proof
from ledger.core.receipt import Receipt, format_receipt
from ledger.core.tiles import TileNodes
from ledger.store.interface import Reading, Store
from ledger.store.rows import blob, number
from ledger.store.tables import ENTRIES, REQUESTS, Row, Value
from ledger.store_tiles import StoreTiles, stored_frontier
from ledger.vault import Gone, Vault
from ledger.views import (
    Availability,
    ConsistencyProof,
    Disclosure,
    EntryPage,
    InclusionProof,
    LogEntry,
    PublishedCheckpoint,
    StoredContent,
)

ENTRIES_BYTES_MAX: Final = 3 << 20
"""A page of entries ends before this many bytes, so that every client can take it."""


_LOG: Final = REQUESTS.names.index("log")
_LAST_INDEX: Final = REQUESTS.names.index("last_idx")


class NotThere(LookupError):
    """The tenant's log has no such entry, run, request or payload. Says which."""


class NotSigning(RuntimeError):
    """This server may not sign for that log: no key, no mark, or a history that was rewound."""


class Signing(Protocol):
    """The tenant's signer."""

    def checkpoint(self, log: Log) -> PublishedCheckpoint:
        """A signed checkpoint that includes everything acknowledged before the call. Raises
        `NotSigning`."""


@dataclass(frozen=True, slots=True)
class NamedPayload:
    """A payload that an entry names: the entry's index and run, the payload's id and name."""

    index: int
    run: str
    payload_id: str
    name: str


class LogReader:
    """Reads logs of any tenant; the log says whose."""

    def __init__(self, *, store: Store, vault: Vault, signing: Signing) -> None:
        self._store = store
        self._vault = vault
        self._signing = signing

    def checkpoint(self, log: Log) -> PublishedCheckpoint:
        """A signed checkpoint."""
        return self._signing.checkpoint(log)

    def entries(self, log: Log, *, start: int, limit: int) -> EntryPage:
        """Entries from index `start` on; fewer than `limit` where the log or the room ends."""
        with self._store.read() as reading:
            size = reading.head(log.number).size
            rows = reading.page(
                ENTRIES,
                equal={"log": log.number},
                order=("idx",),
                after=(start - 1,),
                limit=limit,
            )
        return EntryPage(_fitting(rows), size, size)

    def run_entries(self, log: Log, run_id: str, *, start: int, limit: int) -> EntryPage:
        """Entries of a run from version `start` on. Raises `NotThere`."""
        with self._store.read() as reading:
            size = reading.head(log.number).size
            here: dict[str, Value] = {"log": log.number, "run": run_id}
            newest = reading.page(ENTRIES, equal=here, order=("version",), descending=True, limit=1)
            if not newest:
                raise NotThere("There is no run of this id in this log.")
            rows = reading.page(
                ENTRIES, equal=here, order=("version",), after=(start - 1,), limit=limit
            )
        return EntryPage(_fitting(rows), size, number(newest[0][3]) + 1)

    def inclusion(self, log: Log, *, index: int, tree_size: int) -> InclusionProof:
        """That the entry at `index` is under the root of `tree_size` (0: the present one).

        Raises `Malformed` for a size that the log has not reached or that does not hold the entry.
        """
        with self._store.read() as reading:
            size = _reached(reading, log, tree_size, path="tree_size")
            if index >= size:
                raise Malformed("index", f"is not below the tree size, {size:,}")
            nodes = TileNodes(StoreTiles(reading, log=log.number), size=size)
            hashes = tuple(inclusion_proof(index, size, nodes))
            return InclusionProof(
                size, nodes([Node(0, index)])[0], hashes, stored_frontier(nodes, size=size).root()
            )

    def consistency(self, log: Log, *, old_size: int, new_size: int) -> ConsistencyProof:
        """That the tree of `old_size` is a prefix of that of `new_size` (0: the present one).

        Raises `Malformed` for sizes that the log has not reached or that stand the wrong way round.
        """
        with self._store.read() as reading:
            new = _reached(reading, log, new_size, path="new_size")
            if old_size > new:
                raise Malformed("old_size", f"is above the newer size, {new:,}")
            nodes = TileNodes(StoreTiles(reading, log=log.number), size=new)
            return ConsistencyProof(new, tuple(consistency_proof(old_size, new, nodes)))

    def receipts(self, log: Log, indexes: Sequence[int]) -> dict[int, bytes]:
        """The tlog-proof texts of entries, by index, under one checkpoint made now.

        Raises `NotThere` where one of them is no entry.
        """
        published = self._signing.checkpoint(log)
        with self._store.read() as reading:
            rows = reading.get(ENTRIES, [(log.number, index) for index in indexes])
            entries = {number(row[1]): blob(row[5]) for row in rows}
            nodes = TileNodes(StoreTiles(reading, log=log.number), size=published.size)
            made: dict[int, bytes] = {}
            for index in indexes:
                if index not in entries or index >= published.size:
                    raise NotThere("There is no entry of this index in this log.")
                proof = tuple(inclusion_proof(index, published.size, nodes))
                made[index] = format_receipt(Receipt(entries[index], index, proof, published.note))
        return made

    def index_of_request(self, log: Log, caller: Caller, request_id: RequestId) -> int:
        """Index of the last entry that the caller's request appended. Raises `NotThere`."""
        with self._store.read() as reading:
            rows = reading.get(REQUESTS, [(log.tenant, caller.principal, request_id)])
        if not rows or rows[0][_LOG] != log.number:
            raise NotThere("None of your requests of this id appended anything to this log yet.")
        return number(rows[0][_LAST_INDEX])

    def named_payload(self, log: Log, *, index: int, payload_id: str) -> NamedPayload:
        """A payload that the entry at `index` names; nothing of what it holds. Raises `NotThere`
        where the entry names no such payload."""
        with self._store.read() as reading:
            entry = _entry(reading, log, index)
        name = _payload_names(entry.event).get(payload_id)
        if name is None:
            raise NotThere("The entry names no payload of this id.")
        return NamedPayload(index, entry.run_id, payload_id, name)

    def disclosure(self, log: Log, named: NamedPayload, recorded: Recorded) -> Disclosure:
        """A payload and the salt of its commitment. `recorded`: that this very read stands in the
        access log already."""
        with self._store.read() as reading:
            entry = _entry(reading, log, named.index)
            opened = self._vault.open(reading, log, named.payload_id)
        if isinstance(opened, Gone):
            gone = StoredContent(Availability.REDACTED, redacted_index=opened.index)
            return Disclosure(gone, b"", entry.recorded_at_us)
        content = StoredContent(Availability.PRESENT, opened.content, opened.media_type)
        return Disclosure(content, opened.salt, entry.recorded_at_us)


def _fitting(rows: list[Row]) -> tuple[LogEntry, ...]:
    """As many as fit the answer, one at least."""
    found: list[LogEntry] = []
    room = ENTRIES_BYTES_MAX
    for row in rows:
        entry = blob(row[5])
        room -= len(entry)
        if found and room < 0:
            break
        found.append(LogEntry(number(row[1]), entry))
    return tuple(found)


def _reached(reading: Reading, log: Log, asked: int, *, path: str) -> int:
    size = reading.head(log.number).size
    if asked > size:
        raise Malformed(path, f"is above the log's size, {size:,}")
    return asked or size


def _entry(reading: Reading, log: Log, index: int) -> Entry:
    rows = reading.get(ENTRIES, [(log.number, index)])
    if not rows:
        raise NotThere("There is no entry of this index in this log.")
    return read_entry(blob(rows[0][5]), origin=log.origin, index=index)


def _payload_names(event: JsonObject) -> dict[str, str]:
    payloads = event["payloads"]
    if not isinstance(payloads, list):
        raise InvariantViolation("an entry was stored without its payloads")
    return {str(each["id"]): str(each["name"]) for each in payloads if isinstance(each, dict)}
