"""The boundary of every call: who calls, until when, and how it ends.

Everything that a call can end with becomes a status here, and nowhere else: what is wrong with the
request, a refusal, trouble of the store, and, last, our own mistakes, which say nothing of
themselves to the caller and everything to the log.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import grpc
import structlog
from google.rpc.status_pb2 import Status
from grpc.aio import ServicerContext

from ledger.access_appending import AccessNotRecorded
from ledger.core.commands import Caller
from ledger.core.errors import Malformed
from ledger.core.refusals import Reason
from ledger.core.vocabulary import Role
from ledger.failures import Failure, FailureKind
from ledger.log_reading import NotSigning, NotThere
from ledger.service import statuses
from ledger.service.identity import Identity, NotAuthenticated, NotDecidable
from ledger.service.metrics import Metrics
from ledger.store.errors import StoreError

_TRACE: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_TRACEPARENT: Final = "traceparent"
_KEYS_RETRY_MS: Final = 1_000
_log: Final = structlog.get_logger("ledger.service")


class Ended(Exception):
    """The call ends with this status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


@dataclass(slots=True)
class Call:
    """One call by an authenticated caller. `deadline_ns` is on this process's monotonic clock.

    `facts` are logged with its end: counts and ids, never payloads.
    """

    method: str
    caller: Caller
    trace: str
    deadline_ns: int | None
    facts: dict[str, Any] = field(default_factory=dict)


_Result = TypeVar("_Result")
Unary = Callable[[Call, bytes], Awaitable[bytes]]
RecordRefused = Callable[[Caller, str, str, bytes], Awaitable[None]]
"""Records that the caller has no role for the method, with the trace and the request's bytes.
Raises `AccessNotRecorded`."""
Streaming = Callable[[Call, bytes], AsyncIterator[bytes]]


class Boundary:
    """Wraps the methods of all services."""

    def __init__(self, identity: Identity, metrics: Metrics, record_refused: RecordRefused) -> None:
        self._identity = identity
        self._metrics = metrics
        self._record_refused = record_refused

    def unary(
        self, method: str, handle: Unary, *, roles: frozenset[Role] | None = None
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        """A call with one answer. `roles` None: the command decides for itself."""

        async def call(octets: bytes, context: ServicerContext[bytes, bytes]) -> bytes:
            ended = await self._answered(method, handle, roles, octets, context)
            if isinstance(ended, bytes):
                return ended
            # The transport keeps the exception of an abort, and with it this frame, until the
            # garbage collector finds them: nothing large may hang on either.
            octets = b""
            await _abort(context, ended)
            raise Ended(ended)  # abort has raised before this line is reached

        return grpc.unary_unary_rpc_method_handler(call)

    async def _answered(
        self,
        method: str,
        handle: Unary,
        roles: frozenset[Role] | None,
        octets: bytes,
        context: ServicerContext[bytes, bytes],
    ) -> bytes | Status:
        started_ns = time.perf_counter_ns()
        made: Call | None = None
        try:
            made = await self._guarded(self._admit(method, context, roles, octets), begun=False)
            answer = await self._guarded(handle(made, octets))
        except Ended as ended:
            self._note(method, made, ended.status, started_ns)
            return ended.status
        self._note(method, made, None, started_ns)
        return answer

    def streaming(
        self, method: str, handle: Streaming, *, roles: frozenset[Role]
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        """A call with many answers."""

        async def call(
            octets: bytes, context: ServicerContext[bytes, bytes]
        ) -> AsyncIterator[bytes]:
            started_ns = time.perf_counter_ns()
            made: Call | None = None
            try:
                made = await self._guarded(self._admit(method, context, roles, octets), begun=False)
                answers = handle(made, octets)
                while True:
                    try:
                        answer = await self._guarded(anext(answers))
                    except StopAsyncIteration:
                        break
                    yield answer
            except Ended as ended:
                self._note(method, made, ended.status, started_ns)
                await _abort(context, ended.status)
            self._note(method, made, None, started_ns)

        return grpc.unary_stream_rpc_method_handler(call)

    async def _admit(
        self,
        method: str,
        context: ServicerContext[bytes, bytes],
        roles: frozenset[Role] | None,
        octets: bytes,
    ) -> Call:
        metadata = context.invocation_metadata() or ()
        try:
            caller = self._identity.caller(metadata, context.auth_context)
        except NotAuthenticated as fault:
            raise Ended(_unauthenticated(fault)) from None
        except NotDecidable as fault:
            raise Ended(_not_decidable(fault)) from None
        if roles is not None and roles.isdisjoint(caller.roles):
            await self._record_refused(caller, method, _trace(metadata), octets)
            raise Ended(role_missing(roles))
        remaining_s = context.time_remaining()
        deadline_ns = None
        if remaining_s is not None:
            deadline_ns = time.monotonic_ns() + int(remaining_s * 1e9)
        return Call(method, caller, _trace(metadata), deadline_ns)

    async def _guarded(self, answering: Awaitable[_Result], *, begun: bool = True) -> _Result:
        """The answer, or `Ended`. `begun` False: nothing of the request was looked at before."""
        try:
            return await answering
        except (Ended, StopAsyncIteration):
            raise
        except Malformed as fault:
            raise Ended(statuses.malformed_status(fault)) from None
        except NotThere as fault:
            raise Ended(_not_there(fault)) from None
        except AccessNotRecorded as fault:
            raise Ended(statuses.not_recorded_status(fault)) from None
        except NotSigning as fault:
            raise Ended(_not_served("NOT_SIGNING", fault)) from None
        except StoreError as fault:
            _log.warning("store trouble while reading", fault=type(fault).__name__)
            failure = Failure(FailureKind.STORE_UNAVAILABLE, 1_000)
            raise Ended(statuses.failure_status(failure)) from fault
        except Exception as fault:
            _log.exception("a call met a fault of the server's own")
            raise Ended(_own_fault() if begun else _not_admitted()) from fault

    def _note(self, method: str, call: Call | None, status: Status | None, started_ns: int) -> None:
        elapsed_ns = time.perf_counter_ns() - started_ns
        code = "OK" if status is None else statuses.code_of(status).name
        self._metrics.ended(method, code, elapsed_ns / 1e9)
        if status is None:
            write = _log.debug
        else:
            write = _log.error if code in ("INTERNAL", "DATA_LOSS") else _log.info
        write(
            "call",
            method=method,
            principal=call.caller.principal if call else "",
            tenant=call.caller.tenant if call else "",
            code=code,
            reason=statuses.reason_of(status) if status is not None else "",
            ms=round(elapsed_ns / 1e6, 3),
            **(call.facts if call else {}),
        )


async def _abort(context: ServicerContext[bytes, bytes], status: Status) -> None:
    details = ((statuses.DETAILS_KEY, status.SerializeToString()),)
    await context.abort(statuses.code_of(status), status.message, details)


def _trace(metadata: Any) -> str:
    for name, value in metadata:
        if name == _TRACEPARENT and isinstance(value, str) and _TRACE.fullmatch(value):
            return value
    return ""


def _unauthenticated(fault: NotAuthenticated) -> Status:
    return statuses.make_status(
        grpc.StatusCode.UNAUTHENTICATED,
        "UNAUTHENTICATED",
        f"{fault} Nothing was done. Send a token of this server as 'authorization: Bearer TOKEN'.",
        {"durability": statuses.NOT_COMMITTED},
    )


def _not_decidable(fault: NotDecidable) -> Status:
    return statuses.make_status(
        grpc.StatusCode.UNAVAILABLE,
        "KEYS_UNAVAILABLE",
        f"{fault} Nothing was done. Send the same call again later, or with an embedded token or a "
        "client certificate; an operator mends the file that LEDGER_JWT_KEYS names.",
        {"durability": statuses.NOT_COMMITTED},
        statuses.retry_info(_KEYS_RETRY_MS),
    )


def role_missing(roles: frozenset[Role]) -> Status:
    """The credential's principal has none of these roles."""
    wanted = ", ".join(sorted(roles))
    return statuses.make_status(
        grpc.StatusCode.PERMISSION_DENIED,
        Reason.ROLE_MISSING.name,
        f"The principal behind the credential has none of the roles that allow this: {wanted}. "
        "Nothing was done. Use another credential, or ask an operator for the role.",
        {"durability": statuses.NOT_COMMITTED, "roles": wanted},
    )


def _not_there(fault: NotThere) -> Status:
    return statuses.make_status(
        grpc.StatusCode.NOT_FOUND,
        "NOT_FOUND",
        f"{fault} Nothing was changed.",
        {"durability": statuses.NOT_COMMITTED},
    )


def _not_served(reason: str, fault: Exception) -> Status:
    return statuses.make_status(
        grpc.StatusCode.FAILED_PRECONDITION,
        reason,
        f"{fault} Nothing was handed out.",
        {"durability": statuses.NOT_COMMITTED},
    )


def _not_admitted() -> Status:
    return statuses.make_status(
        grpc.StatusCode.INTERNAL,
        "INTERNAL",
        "The server met a fault of its own while it looked who calls. Nothing was done. Send the "
        "same request again; if it stays, ask an operator for the log.",
        {"durability": statuses.NOT_COMMITTED},
    )


def _own_fault() -> Status:
    return statuses.make_status(
        grpc.StatusCode.INTERNAL,
        "INTERNAL",
        "The server met a fault of its own. Whether anything was appended is not known. Send the "
        "same request again with the same request id; if it stays, ask an operator for the log.",
        {"durability": statuses.MAYBE_COMMITTED},
    )
