"""Refusals, failures and malformed requests as gRPC statuses with google.rpc details.

Every status carries ErrorInfo: `reason`, domain `ledger.v1`, and metadata with `durability`
(NOT_COMMITTED or MAYBE_COMMITTED). Messages say what happened, what is safe now and what to do
next; they hold no payload, no token and nothing of another tenant. docs/api.md lists the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2 as details_pb
from google.rpc.status_pb2 import Status

from ledger.access_appending import AccessNotRecorded
from ledger.core.errors import Malformed
from ledger.core.refusals import Reason, Refused
from ledger.failures import Failure, FailureKind, is_certain
from ledger.service.faults import LimitPassed

DOMAIN: Final = "ledger.v1"
DETAILS_KEY: Final = "grpc-status-details-bin"
NOT_COMMITTED: Final = "NOT_COMMITTED"
MAYBE_COMMITTED: Final = "MAYBE_COMMITTED"

_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


def code_of(status: Status) -> grpc.StatusCode:
    """The status' code as gRPC's own enum."""
    return _CODES[status.code]


def reason_of(status: Status) -> str:
    """The reason in its ErrorInfo, for logs."""
    info = details_pb.ErrorInfo()
    return info.reason if status.details and status.details[0].Unpack(info) else ""


def refusal_status(refused: Refused) -> Status:
    """The status of a refused command."""
    facts = {
        "durability": NOT_COMMITTED,
        "may_succeed_later": "true" if refused.may_succeed_later else "false",
    }
    named = (("step", refused.step), ("run", refused.run), ("key", refused.key))
    facts |= {name: value for name, value in named if value}
    violation = refused.details.get("field", "")
    extra = () if not violation else (_bad_request(violation, refused.message),)
    return make_status(
        refusal_code(refused.reason),
        refused.reason.name,
        refused.message,
        {**refused.details, **facts},
        *extra,
    )


def refusal_code(reason: Reason) -> grpc.StatusCode:
    """The code for each reason.

    ALREADY_EXISTS where the id stands already for other content, also for a request id that was
    used before: the caller's next step is to look, never to repeat.
    """
    match reason:
        case Reason.RUN_EXISTS | Reason.REQUEST_REUSED:
            return grpc.StatusCode.ALREADY_EXISTS
        case Reason.RUN_NOT_FOUND:
            return grpc.StatusCode.NOT_FOUND
        case Reason.ROLE_MISSING | Reason.SELF_RECONCILE | Reason.OWN_PROPOSAL:
            return grpc.StatusCode.PERMISSION_DENIED
        case Reason.LIMIT_EXCEEDED:
            return grpc.StatusCode.INVALID_ARGUMENT
        case (
            Reason.RUN_CLOSED
            | Reason.STALE_LEASE
            | Reason.LEASE_EXPIRED
            | Reason.LEASE_OF_ANOTHER_PROCESS
            | Reason.LEASE_HELD
            | Reason.STEP_NOT_PLANNED
            | Reason.STEP_WITHDRAWN
            | Reason.PLAN_MISMATCH
            | Reason.TOOL_VERSION_MISMATCH
            | Reason.CLASS_MISMATCH
            | Reason.CLASS_DOWNGRADE
            | Reason.ABOVE_CEILING
            | Reason.CANCELLED
            | Reason.KEY_CONFLICT
            | Reason.ARGUMENTS_ERASED
            | Reason.KEY_ABANDONED
            | Reason.SUPERSEDED_ALREADY
            | Reason.NOT_SUPERSEDABLE
            | Reason.SUPERSEDE_REQUIRED
            | Reason.CONTRADICTION
            | Reason.WAITING
            | Reason.PREDECESSOR_ENDED
            | Reason.START_ALREADY_USED
            | Reason.NO_SUCH_ATTEMPT
            | Reason.WRONG_STATE
            | Reason.STEP_STARTED
            | Reason.STEP_UNKNOWN
            | Reason.TOO_EARLY
            | Reason.VERSION_MISMATCH
            | Reason.NOT_SUPERSEDING
            | Reason.ATTEMPT_MAY_RUN
            | Reason.ACQUIRE_ALREADY_USED
            | Reason.HISTORY_REWOUND
            | Reason.PROPOSAL_REQUIRED
        ):
            return grpc.StatusCode.FAILED_PRECONDITION
    assert_never(reason)


def failure_status(failure: Failure) -> Status:
    """The status of a command that got no answer."""
    code, message = _failure_words(failure.kind)
    durability = NOT_COMMITTED if is_certain(failure.kind) else MAYBE_COMMITTED
    facts = {"durability": durability}
    wait_ms = failure.retry_after_ms
    if wait_ms <= 0:
        return make_status(code, failure.kind.value, message, facts)
    return make_status(code, failure.kind.value, message, facts, retry_info(wait_ms))


def retry_info(wait_ms: int) -> Message:
    """The detail that says how long to wait before asking again."""
    delay = Duration(seconds=wait_ms // 1_000, nanos=wait_ms % 1_000 * 1_000_000)
    made: Message = details_pb.RetryInfo(retry_delay=delay)
    return made


def _failure_words(kind: FailureKind) -> tuple[grpc.StatusCode, str]:
    match kind:
        case FailureKind.OVERLOADED:
            return grpc.StatusCode.RESOURCE_EXHAUSTED, (
                "The server has more work queued than it can take. Nothing was appended. Wait as "
                "long as RetryInfo says, then send the same request again."
            )
        case FailureKind.DEADLINE_PASSED:
            return grpc.StatusCode.DEADLINE_EXCEEDED, (
                "The deadline passed while the command was still queued. Nothing was appended by "
                "this try. Send the same request again, with a later deadline."
            )
        case FailureKind.STORE_UNAVAILABLE:
            return grpc.StatusCode.UNAVAILABLE, (
                "The store cannot promise now that an append is durable. Nothing was appended by "
                "this try. Send the same request again later; start nothing meanwhile."
            )
        case FailureKind.MAYBE_COMMITTED:
            return grpc.StatusCode.UNAVAILABLE, (
                "The commit was sent and no clear answer came: it may have happened. Send the same "
                "request again with the same request id; never with a new one."
            )
        case FailureKind.DRAINING:
            return grpc.StatusCode.UNAVAILABLE, (
                "The server is stopping and takes nothing new. Nothing was appended by this try. "
                "Send the same request again to a running server."
            )
        case FailureKind.HISTORY_REWOUND:
            return grpc.StatusCode.DATA_LOSS, (
                "The log is shorter than, or differs from, what was acknowledged before, so this "
                "server refuses to append to it. Nothing was appended. An operator must pin a "
                "checkpoint, with `ledger checkpoint pin`: see docs/operations.md."
            )
        case FailureKind.ACCESS_NOT_RECORDED:
            return grpc.StatusCode.UNAVAILABLE, (
                "What was asked for has to stand in the tenant's access log before it is done or "
                "refused, and it cannot be written there now. Nothing was appended. Send the same "
                "request again later."
            )
    assert_never(kind)


def not_recorded_status(fault: AccessNotRecorded) -> Status:
    """A read that cannot be recorded, so it did not happen."""
    if fault.too_fast:
        code = grpc.StatusCode.RESOURCE_EXHAUSTED
    elif fault.retry_after_ms > 0:
        code = grpc.StatusCode.UNAVAILABLE
    else:
        code = grpc.StatusCode.FAILED_PRECONDITION
    wait_ms = fault.retry_after_ms
    return make_status(
        code,
        FailureKind.ACCESS_NOT_RECORDED.value,
        f"{fault} Nothing was handed out or changed.",
        {"durability": NOT_COMMITTED},
        *([retry_info(wait_ms)] if wait_ms > 0 else []),
    )


def malformed_status(fault: Malformed) -> Status:
    """INVALID_ARGUMENT with the path of the field."""
    reason = Reason.LIMIT_EXCEEDED.name if isinstance(fault, LimitPassed) else "INVALID_FIELD"
    message = f"{fault.path} {fault.reason}. Nothing was appended. Mend the request and send it."
    facts = {"durability": NOT_COMMITTED, "field": fault.path}
    violation = _bad_request(fault.path, fault.reason)
    return make_status(grpc.StatusCode.INVALID_ARGUMENT, reason, message, facts, violation)


def _bad_request(path: str, description: str) -> Message:
    violation = details_pb.BadRequest.FieldViolation(field=path, description=description)
    made: Message = details_pb.BadRequest(field_violations=[violation])
    return made


def make_status(
    code: grpc.StatusCode,
    reason: str,
    message: str,
    facts: Mapping[str, str],
    *extra: Message,
) -> Status:
    """A status with ErrorInfo first and any other details after it."""
    info = details_pb.ErrorInfo(reason=reason, domain=DOMAIN, metadata=facts)
    status = Status(code=code.value[0], message=message)
    for detail in (info, *extra):
        packed = Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status
