"""A failed try as a value: read from a gRPC status and its google.rpc details, mapped to what the
SDK raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from ledger.client.decode import time_of_text
from ledger.client.errors import (
    CallFailed,
    HeldByAnother,
    HistoryRewound,
    InvalidRequest,
    LedgerError,
    LedgerUnavailable,
    NotAuthenticated,
    Refused,
    Violation,
)
from ledger.client.values import Held, Refusal
from ledger.client.words import Durability, Reason

DOMAIN: Final = "ledger.v1"
HISTORY_REWOUND: Final = "HISTORY_REWOUND"
DETAILS_KEY: Final = "grpc-status-details-bin"
_CODE_OF: Final = {code.value[0]: code for code in grpc.StatusCode}
# Without RetryInfo, RESOURCE_EXHAUSTED is a limit (the transport's message size, say): no repeat
# cures it.
_TRANSIENT: Final = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.ABORTED}
)
# What may have reached the server and been committed when the answer was lost.
_SURELY_NOT_COMMITTED: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)


# Of these codes a reason that this version does not know is a refusal all the same.
_REFUSING: Final = frozenset(
    {
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.PERMISSION_DENIED,
    }
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One try that got no answer.

    `reason` is the ErrorInfo reason of our domain, or empty; `facts` its metadata; `retry_after_s`
    the pause that RetryInfo asks for, in seconds. `unsent` means that the try was never begun,
    because there was no connection to send it over.
    """

    code: grpc.StatusCode
    message: str
    reason: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    violations: tuple[Violation, ...] = ()
    retry_after_s: float | None = None
    unsent: bool = False

    @property
    def durability(self) -> Durability:
        """What this try did to the log; said by the server, else judged by the status, never
        hopefully.
        """
        if self.unsent:
            return Durability.NOT_COMMITTED
        said = self.facts.get("durability", "")
        if said in Durability.__members__:
            return Durability[said]
        if self.code in _SURELY_NOT_COMMITTED:
            return Durability.NOT_COMMITTED
        return Durability.MAYBE_COMMITTED

    @property
    def transient(self) -> bool:
        """Whether the same bytes may be sent again."""
        return (
            self.code in _TRANSIENT
            or (self.code is grpc.StatusCode.RESOURCE_EXHAUSTED and self.retry_after_s is not None)
            or self.facts.get("durability") == Durability.MAYBE_COMMITTED.name
        )


def failure_of_call(error: grpc.RpcError) -> Failure:
    """The failure a gRPC call raised, sync or asyncio."""
    code = error.code()
    metadata = cast(Iterable[tuple[str, str | bytes]], error.trailing_metadata() or ())
    for key, value in metadata:
        if key == DETAILS_KEY and isinstance(value, bytes):
            try:
                status = status_pb2.Status.FromString(value)
            except DecodeError:
                break
            return failure_of_status(status, code=code)
    return Failure(code=code, message=error.details() or "")


def failure_of_status(status: status_pb2.Status, *, code: grpc.StatusCode | None = None) -> Failure:
    """The failure a google.rpc.Status carries; `code` overrides its number where the call had
    one.
    """
    reason, facts, retry_after_s = "", dict[str, str](), None
    violations: tuple[Violation, ...] = ()
    for detail in status.details:
        info = error_details_pb2.ErrorInfo()
        bad = error_details_pb2.BadRequest()
        retry = error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            if info.domain == DOMAIN:
                reason, facts = info.reason, dict(info.metadata)
        elif detail.Unpack(bad):
            violations = tuple(Violation(v.field, v.description) for v in bad.field_violations)
        elif detail.Unpack(retry):
            retry_after_s = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    return Failure(
        code=code or _CODE_OF.get(status.code, grpc.StatusCode.UNKNOWN),
        message=status.message,
        reason=reason,
        facts=facts,
        violations=violations,
        retry_after_s=retry_after_s,
    )


def error_of(
    failure: Failure, *, method: str, tries: int = 1, durability: Durability | None = None
) -> LedgerError:
    """What to raise for a failure that stands. `durability` speaks of all tries; unset: of this
    one.
    """
    committed = durability or failure.durability
    if failure.transient:
        return LedgerUnavailable(
            method=method,
            durability=committed,
            tries=tries,
            detail=f"{failure.code.name}: {failure.message}",
        )
    if failure.code is grpc.StatusCode.UNAUTHENTICATED:
        return NotAuthenticated(detail=failure.message)
    reason = Reason.named(failure.reason)
    if failure.code is grpc.StatusCode.INVALID_ARGUMENT or reason is Reason.LIMIT_EXCEEDED:
        return InvalidRequest(*(failure.violations or (Violation("request", failure.message),)))
    if reason is Reason.LEASE_HELD:
        return HeldByAnother(_held(failure))
    if failure.reason == HISTORY_REWOUND:
        return HistoryRewound(method=method, detail=failure.message, facts=failure.facts)
    if reason is not Reason.UNSPECIFIED or (failure.reason and failure.code in _REFUSING):
        return Refused(_refusal(failure, reason))
    return CallFailed(
        method=method, code=failure.code.name, durability=committed, detail=failure.message
    )


def _refusal(failure: Failure, reason: Reason) -> Refusal:
    facts = dict(failure.facts)
    facts.pop("durability", None)
    if reason is Reason.UNSPECIFIED:
        facts["reason"] = failure.reason
    return Refusal(
        reason=reason,
        may_succeed_later=facts.pop("may_succeed_later", "") in ("1", "true"),
        message=failure.message,
        step=facts.pop("step", ""),
        run=facts.pop("run", ""),
        key=facts.pop("key", ""),
        details=facts,
    )


def _held(failure: Failure) -> Held:
    facts = failure.facts
    return Held(
        run=facts.get("run", ""),
        step="",
        attempt=0,
        token=0,
        holder=facts.get("holder", ""),
        until=time_of_text(facts.get("until", "")),
    )
