"""What every service is made with, and what they all do: tenant to log, blocking reads, pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status

from ledger.core.answers import Answered
from ledger.core.ids import Tenant
from ledger.core.log import Log
from ledger.core.refusals import Refused
from ledger.failures import Failure, FailureKind
from ledger.head_seen import HeadSeen, HeadsSeen
from ledger.limits import Limits
from ledger.log_reading import LogReader
from ledger.paging import Page, read_token
from ledger.reading import RunReader
from ledger.served_logs import ServedLogs
from ledger.service import decode, fields, statuses
from ledger.service.asking import Asking
from ledger.service.boundary import Boundary, Call, Ended
from ledger.service.faults import LimitPassed
from ledger.service.recording import Recording
from ledger.service.seams import Submitting
from ledger.service.streams import Streams
from ledger.tenants import UnknownTenant
from ledger.threads import Threads

_Message = TypeVar("_Message", bound=Message)
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class House:
    """The rooms behind the services."""

    boundary: Boundary
    submitting: Submitting
    logs: ServedLogs
    runs: RunReader
    entries: LogReader
    threads: Threads
    streams: Streams
    limits: Limits
    heads: HeadsSeen
    recording: Recording
    known_logs: dict[Tenant, Log] = field(default_factory=dict)

    async def log_of(self, call: Call) -> Log:
        """The caller's log, read once and remembered: a tenant's log does not change while this
        server runs. A tenant without one is told so."""
        tenant = call.caller.tenant
        log = self.known_logs.get(tenant)
        if log is None:
            try:
                log = await self.threads.run(lambda: self.logs.log(tenant))
            except UnknownTenant:
                raise Ended(_no_tenant()) from None
            self.known_logs[tenant] = log
        return log

    def asking(self, call: Call, log: Log) -> Asking:
        """What the decoders are handed."""
        return Asking(call.caller, self.limits, log.key_index_secret, call.trace, call.deadline_ns)

    def parse(self, kind: type[_Message], octets: bytes) -> _Message:
        """A request message, its form checked."""
        return decode.parse(kind, octets, bytes_max=self.limits.message_bytes_max)

    async def require_head(
        self, log: Log, seen: HeadSeen | None, *, for_read: bool = False
    ) -> None:
        """Ends the call where the log does not hold the head that its client saw.

        A read asks the store in any case: nothing behind it compares the log with what this replica
        acknowledged, as an append does.
        """
        if seen is None or (not for_read and self.heads.is_acknowledged(log, seen)):
            return
        refused = await self.read(lambda: self.heads.refusal(log, seen))
        if refused is not None:
            raise Ended(statuses.refusal_status(refused))
        self.heads.acknowledge(log, index=seen.size - 1, leaf=seen.leaf)

    async def tell_rewound(
        self, log: Log, seen: HeadSeen | None, outcomes: Sequence[Answered | Failure]
    ) -> None:
        """Ends the call with both heads where the log turned out to be another, and its client told
        what it saw: what this replica remembers of it counts for nothing then."""
        rewound = FailureKind.HISTORY_REWOUND
        if all(isinstance(each, Failure) and each.kind is rewound for each in outcomes):
            await self.require_head(log, seen, for_read=True)

    def acknowledge(self, log: Log, outcome: Answered | Failure) -> None:
        """Remembers where an answered command stands: its client may tell next that it saw it."""
        if isinstance(outcome, Answered) and outcome.append is not None:
            self.heads.acknowledge(log, index=outcome.append.index, leaf=outcome.append.leaf)

    async def read(self, blocking: Callable[[], _Result]) -> _Result:
        """A blocking read, in a thread."""
        return await self.threads.run(blocking)

    def page(
        self, size: int, token: str, kinds: Sequence[type], *, default: int | None = None
    ) -> Page:
        """What a list call asks for. An unset size takes the default."""
        return Page(self.page_size(size, default=default), read_token(token, kinds))

    def page_size(self, size: int, *, default: int | None = None) -> int:
        """How many items a page may have."""
        if size < 0:
            raise LimitPassed("page_size", "is below 0")
        if size > self.limits.page_max:
            raise LimitPassed("page_size", f"is above {self.limits.page_max:,}")
        return size or min(default or self.limits.page_default, self.limits.page_max)


def answered(result: _Result | Refused | Failure) -> _Result:
    """What was answered; a refusal or failure ends the call."""
    if isinstance(result, Refused):
        raise Ended(statuses.refusal_status(result))
    if isinstance(result, Failure):
        raise Ended(statuses.failure_status(result))
    return result


def _no_tenant() -> Status:
    return statuses.make_status(
        grpc.StatusCode.FAILED_PRECONDITION,
        "TENANT_MISSING",
        "The credential's tenant has no log on this server. Nothing was changed. An operator makes "
        "one with `ledger tenants new`.",
        {"durability": statuses.NOT_COMMITTED},
    )


def index_of(number: int, path: str) -> int:
    """An index, size or version a reader names."""
    return fields.optional_count(number, path)
