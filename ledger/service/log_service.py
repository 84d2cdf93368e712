"""`ledger.v1.LogService`: what an auditor or a mirror reads.

Every read of the access log's entries, of a payload, and every one that says it exports or verifies
is recorded before its first byte is answered.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from functools import partial

from ledger.core.body import Body
from ledger.core.errors import Malformed
from ledger.core.events import AccessExported, AccessLogRead, AccessPayloadRead, AccessVerified
from ledger.core.ids import PayloadId, RunId, hex_32
from ledger.core.log import Log
from ledger.service.boundary import Call, Ended, Streaming, Unary, role_missing
from ledger.service.calls import House, index_of
from ledger.service.encode_views import content_message, timestamp
from ledger.service.fields import head_seen, required_id, required_request_id
from ledger.service.roles import ACCESS_LOG, READ_ROLES, RECEIPT_BY_INDEX
from ledger.v1 import log_service_pb2 as pb
from ledger.views import EntryPage

LOG_SERVICE = "ledger.v1.LogService"

_ReadsEntries = pb.ListEntriesRequest | pb.FollowEntriesRequest | pb.GetReceiptRequest
_NamesLog = (
    _ReadsEntries
    | pb.GetCheckpointRequest
    | pb.GetInclusionProofRequest
    | pb.GetConsistencyProofRequest
)


class LogCalls:
    """The calls on the log."""

    def __init__(self, house: House) -> None:
        self._house = house

    def reading(self) -> dict[str, Unary]:
        """Every call with one answer."""
        return {
            "GetCheckpoint": self.get_checkpoint,
            "ListEntries": self.list_entries,
            "ListRunEntries": self.list_run_entries,
            "GetInclusionProof": self.get_inclusion_proof,
            "GetConsistencyProof": self.get_consistency_proof,
            "GetReceipt": self.get_receipt,
            "GetPayload": self.get_payload,
        }

    def streaming(self) -> dict[str, Streaming]:
        """Every call that streams."""
        return {"FollowEntries": self.follow_entries}

    async def get_checkpoint(self, call: Call, octets: bytes) -> bytes:
        """GetCheckpoint."""
        house = self._house
        message = house.parse(pb.GetCheckpointRequest, octets)
        seen = head_seen(message)
        log = await self._log_named(call, message, octets)
        await house.require_head(log, seen, for_read=True)
        found = await house.read(lambda: house.entries.checkpoint(log))
        return pb.GetCheckpointResponse(
            checkpoint=found.note.decode("utf-8"), size=found.size, verifier_key=found.verifier_key
        ).SerializeToString()

    async def list_entries(self, call: Call, octets: bytes) -> bytes:
        """ListEntries."""
        house = self._house
        message = house.parse(pb.ListEntriesRequest, octets)
        start = index_of(message.start, "start")
        limit = house.page_size(message.page_size)
        log = await self._log_named(call, message, octets)
        await self._record_entries(call, log, message, start=start)
        found = await house.read(lambda: house.entries.entries(log, start=start, limit=limit))
        return pb.ListEntriesResponse(entries=_entries(found), size=found.size).SerializeToString()

    async def list_run_entries(self, call: Call, octets: bytes) -> bytes:
        """ListRunEntries."""
        house = self._house
        message = house.parse(pb.ListRunEntriesRequest, octets)
        run = _run_or_log(message.run)
        start = index_of(message.start_version, "start_version")
        limit = house.page_size(message.page_size)
        log = await house.log_of(call)
        found = await house.read(
            lambda: house.entries.run_entries(log, run, start=start, limit=limit)
        )
        return pb.ListRunEntriesResponse(
            entries=_entries(found), total_size=found.total
        ).SerializeToString()

    async def get_inclusion_proof(self, call: Call, octets: bytes) -> bytes:
        """GetInclusionProof."""
        house = self._house
        message = house.parse(pb.GetInclusionProofRequest, octets)
        index = index_of(message.index, "index")
        size = index_of(message.tree_size, "tree_size")
        log = await self._log_named(call, message, octets)
        found = await house.read(lambda: house.entries.inclusion(log, index=index, tree_size=size))
        return pb.GetInclusionProofResponse(
            tree_size=found.tree_size, leaf_hash=found.leaf, hashes=found.hashes, root=found.root
        ).SerializeToString()

    async def get_consistency_proof(self, call: Call, octets: bytes) -> bytes:
        """GetConsistencyProof."""
        house = self._house
        message = house.parse(pb.GetConsistencyProofRequest, octets)
        old = index_of(message.old_size, "old_size")
        new = index_of(message.new_size, "new_size")
        log = await self._log_named(call, message, octets)
        found = await house.read(lambda: house.entries.consistency(log, old_size=old, new_size=new))
        return pb.GetConsistencyProofResponse(
            new_size=found.new_size, hashes=found.hashes
        ).SerializeToString()

    async def get_receipt(self, call: Call, octets: bytes) -> bytes:
        """GetReceipt: by index for whoever may read entries, by request id for who sent it."""
        house = self._house
        message = house.parse(pb.GetReceiptRequest, octets)
        log = await self._log_named(call, message, octets)
        match message.WhichOneof("append"):
            case "index":
                if RECEIPT_BY_INDEX.isdisjoint(call.caller.roles):
                    await house.recording.role_missing(call.caller, call.method, call.trace, octets)
                    raise Ended(role_missing(RECEIPT_BY_INDEX))
                index = index_of(message.index, "index")
                await self._record_entries(call, log, message, start=index)
            case "request_id" if message.log == pb.LOG_NAME_ACCESS:
                raise Malformed("request_id", "appended nothing to the access log: name an index")
            case "request_id":
                request_id = required_request_id(message.request_id)
                index = await house.read(
                    lambda: house.entries.index_of_request(log, call.caller, request_id)
                )
            case _:
                raise Malformed("append", "is missing: name an index or a request_id")
        found = await house.read(lambda: house.entries.receipts(log, [index]))
        return pb.GetReceiptResponse(
            receipt=found[index].decode("utf-8"), index=index
        ).SerializeToString()

    async def get_payload(self, call: Call, octets: bytes) -> bytes:
        """GetPayload."""
        house = self._house
        message = house.parse(pb.GetPayloadRequest, octets)
        index = index_of(message.index, "index")
        if not message.payload_id:
            raise Malformed("payload_id", "is missing")
        payload_id = hex_32(PayloadId, message.payload_id, path="payload_id")
        log = await house.log_of(call)
        named = await house.read(
            lambda: house.entries.named_payload(log, index=index, payload_id=payload_id)
        )
        body = AccessPayloadRead(
            origin=log.origin, index=index, payload=payload_id, name=named.name, run=named.run
        )
        recorded = await house.recording.read(call, body, message, roles=READ_ROLES[call.method])
        found = await house.read(lambda: house.entries.disclosure(log, named, recorded))
        return pb.GetPayloadResponse(
            payload=content_message(found.content),
            salt=found.salt,
            recorded_at=timestamp(found.recorded_us),
        ).SerializeToString()

    async def follow_entries(self, call: Call, octets: bytes) -> AsyncIterator[bytes]:
        """FollowEntries."""
        house = self._house
        message = house.parse(pb.FollowEntriesRequest, octets)
        start = index_of(message.start, "start")
        until_head = message.until_head
        log = await self._log_named(call, message, octets)
        limit = house.limits.page_max
        with house.streams.place():
            await self._record_entries(call, log, message, start=start)
            while True:
                seen, looked_s = house.streams.look(), time.monotonic()
                found = await house.read(
                    partial(house.entries.entries, log, start=start, limit=limit)
                )
                if found.entries:
                    start = found.entries[-1].index + 1
                    yield pb.FollowEntriesResponse(
                        entries=_entries(found), size=found.size
                    ).SerializeToString()
                if start < found.size:
                    continue
                if until_head:
                    return
                await house.streams.wait(seen=seen, looked_s=looked_s)

    async def _log_named(self, call: Call, message: _NamesLog, octets: bytes) -> Log:
        """The log that a request names. Its caller may read the access log only as an auditor."""
        house = self._house
        log = await house.log_of(call)
        match message.log:
            case pb.LOG_NAME_UNSPECIFIED | pb.LOG_NAME_RUNS:
                return log
            case pb.LOG_NAME_ACCESS:
                if ACCESS_LOG.isdisjoint(call.caller.roles):
                    await house.recording.role_missing(call.caller, call.method, call.trace, octets)
                    raise Ended(role_missing(ACCESS_LOG))
                return await house.recording.log_of(call)
            case _:
                raise Malformed("log", "is no log of a tenant known here")

    async def _record_entries(
        self, call: Call, log: Log, message: _ReadsEntries, *, start: int
    ) -> None:
        """Before entries from `start` on are answered."""
        access = message.log == pb.LOG_NAME_ACCESS
        body = _entries_read(call, log, message, start=start)
        if body is not None:
            roles = ACCESS_LOG if access else READ_ROLES[call.method]
            await self._house.recording.read(call, body, message, roles=roles)


def _entries_read(call: Call, log: Log, message: _ReadsEntries, *, start: int) -> Body | None:
    """What is recorded of a read of entries; None where it is none of those that are."""
    if message.log == pb.LOG_NAME_ACCESS:
        return AccessLogRead(method=call.method, start=start)
    if isinstance(message, pb.GetReceiptRequest):
        return None
    match message.purpose:
        case pb.READ_PURPOSE_UNSPECIFIED:
            return None
        case pb.READ_PURPOSE_EXPORT:
            return AccessExported(origin=log.origin, start=start)
        case pb.READ_PURPOSE_VERIFY:
            return AccessVerified(origin=log.origin, start=start)
        case _:
            raise Malformed("purpose", "is none known here")


def _run_or_log(run: str) -> RunId:
    """A run's id, or `_log`, whose entries belong to no run."""
    return RunId(run) if run == "_log" else required_id(RunId, run, "run")


def _entries(page: EntryPage) -> list[pb.LogEntry]:
    return [pb.LogEntry(index=entry.index, entry=entry.entry) for entry in page.entries]
