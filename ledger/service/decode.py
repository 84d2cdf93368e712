"""Bytes of a request to commands, whatever door they came through.

Order of the checks: protobuf form, unknown fields, the fields, the whole size. A fault names its
field as the client wrote it (`steps[3].arguments.content`; in Submit
`commands[5].plan_steps.steps[3].arguments.content`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from ledger.core.commands import Command, Request
from ledger.core.errors import Malformed
from ledger.core.value import value
from ledger.head_seen import HeadSeen
from ledger.service import decode_runs, decode_steps, fields
from ledger.service.asking import Asking
from ledger.service.faults import LimitPassed, under
from ledger.service.request_content import content_digest
from ledger.service.wire import first_fault, largest_field
from ledger.v1 import review_service_pb2 as review_pb
from ledger.v1 import run_service_pb2 as pb

_Message = TypeVar("_Message", bound=Message)


@value()
class Decoded:
    """A command ready to be submitted, whether its answer shall carry a receipt, and the head that
    its message says was seen."""

    request: Request
    wants_receipt: bool
    head_seen: HeadSeen | None = None


@value()
class Method:
    """A mutating call: its bare name, its request message, and what reads it."""

    name: str
    message: type[Message]
    read: Callable[[Any, Asking], Command]


METHODS: Final = {
    method.name: method
    for method in (
        Method("OpenRun", pb.OpenRunRequest, decode_runs.open_run),
        Method("AcquireLease", pb.AcquireLeaseRequest, decode_runs.acquire_lease),
        Method("ReleaseLease", pb.ReleaseLeaseRequest, decode_runs.release_lease),
        Method("BreakLease", pb.BreakLeaseRequest, decode_runs.break_lease),
        Method("PlanSteps", pb.PlanStepsRequest, decode_steps.plan_steps),
        Method("StartStep", pb.StartStepRequest, decode_steps.start_step),
        Method("CompleteStep", pb.CompleteStepRequest, decode_steps.complete_step),
        Method("MarkUnknown", pb.MarkUnknownRequest, decode_steps.mark_unknown),
        Method("WithdrawStep", pb.WithdrawStepRequest, decode_steps.withdraw_step),
        Method("AttachEvidence", pb.AttachEvidenceRequest, decode_steps.attach_evidence),
        Method("RequestCancel", pb.RequestCancelRequest, decode_runs.request_cancel),
        Method("CloseRun", pb.CloseRunRequest, decode_runs.close_run),
        Method("Reconcile", review_pb.ReconcileRequest, decode_runs.reconcile),
        Method("ProposeDecision", review_pb.ProposeDecisionRequest, decode_runs.propose_decision),
        Method("AllowDowngrade", review_pb.AllowDowngradeRequest, decode_runs.allow_downgrade),
    )
}
"""Every mutating call by name."""

IN_SUBMIT: Final = {
    field.name: next(m for m in METHODS.values() if m.message.DESCRIPTOR is field.message_type)
    for field in pb.Command.DESCRIPTOR.fields
}
"""The commands that Submit takes, by their name in `Command`."""


def parse(kind: type[_Message], octets: bytes, *, bytes_max: int) -> _Message:
    """A message without unknown fields. Raises `Malformed` with the path of what is wrong."""
    message = _parse_loosely(kind, octets)
    if _drop_unknown(message):
        raise first_fault(octets, kind) or _unnamed_fault()
    _require_size(kind, octets, bytes_max)
    return message


def decode_unary(method: Method, octets: bytes, asking: Asking) -> Decoded:
    """The command of a unary call. Raises `Malformed`."""
    message = _parse_loosely(method.message, octets)
    if _drop_unknown(message):
        raise first_fault(octets, method.message) or _unnamed_fault()
    decoded = _decode(method, message, len(octets), asking, fields.head_seen(message))
    _require_size(method.message, octets, asking.limits.message_bytes_max)
    return decoded


def decode_submit(octets: bytes, asking: Asking) -> list[Decoded | Malformed]:
    """The commands of a Submit, in order; a malformed one is its own fault and nobody else's.

    Raises `Malformed` for faults of the message itself: its form, its size, the number of commands,
    and a request id that stands twice.
    """
    message = _parse_loosely(pb.SubmitRequest, octets)
    commands = message.commands
    if not commands:
        raise Malformed("commands", "is missing")
    fields.require_at_most(commands, asking.limits.commands_max, "commands")
    _require_size(pb.SubmitRequest, octets, asking.limits.message_bytes_max)
    unknown = _unknown_by_command(octets) if _drop_unknown(message) else {}
    head_seen = fields.head_seen(message)
    decoded: list[Decoded | Malformed] = []
    first_at: dict[str, int] = {}
    for at, command in enumerate(commands):
        name = command.WhichOneof("command")
        if name is None:
            fault = unknown.get(at) or Malformed("command", "is missing")
            decoded.append(under(f"commands[{at}]", fault))
            continue
        inner = getattr(command, name)
        twin = first_at.setdefault(inner.request_id, at)
        if twin != at and inner.request_id:
            path = f"commands[{at}].{name}.request_id"
            raise Malformed(path, f"is that of commands[{twin}] too; each command has its own")
        if at in unknown:
            decoded.append(under(f"commands[{at}]", unknown[at]))
            continue
        try:
            if inner.HasField("last_head_seen"):
                raise Malformed("last_head_seen", "is given, but in Submit the message has it")
            decoded.append(_decode(IN_SUBMIT[name], inner, inner.ByteSize(), asking, head_seen))
        except Malformed as fault:
            decoded.append(under(f"commands[{at}].{name}", fault))
    return decoded


def _decode(
    method: Method, message: Any, size_bytes: int, asking: Asking, head_seen: HeadSeen | None
) -> Decoded:
    request_id = fields.required_request_id(message.request_id)
    command = method.read(message, asking)
    request = Request(
        asking.caller,
        request_id,
        content_digest(method.name, message),
        command,
        asking.trace,
        asking.deadline_ns,
        size_bytes,
    )
    return Decoded(request, message.receipt, head_seen)


def _parse_loosely(kind: type[_Message], octets: bytes) -> _Message:
    try:
        return kind.FromString(octets)
    except DecodeError:
        raise first_fault(octets, kind) or _unnamed_fault() from None


def _unnamed_fault() -> Malformed:
    return Malformed("message", "is not the protobuf message of this call")


def _require_size(kind: type[Message], octets: bytes, bytes_max: int) -> None:
    if len(octets) > bytes_max:
        path = largest_field(octets, kind)
        reason = f"makes the message {len(octets):,} bytes, at most {bytes_max:,} are allowed"
        raise LimitPassed(path, reason)


def _drop_unknown(message: Message) -> bool:
    """Whether the message held unknown fields at any depth; they are gone afterwards.

    Two sizes and one sweep cost about a microsecond; asking each nested message for its unknown
    fields costs that for every one of them.
    """
    before = message.ByteSize()
    message.DiscardUnknownFields()
    return message.ByteSize() != before


def _unknown_by_command(octets: bytes) -> dict[int, Malformed]:
    """Which commands hold unknown fields. Raises `Malformed` where the message itself does."""
    again = pb.SubmitRequest.FromString(octets)
    if len(UnknownFieldSet(again)):
        raise first_fault(octets, pb.SubmitRequest) or _unnamed_fault()
    found: dict[int, Malformed] = {}
    for at, command in enumerate(again.commands):
        one = command.SerializeToString()
        if _drop_unknown(command):
            found[at] = first_fault(one, pb.Command) or _unnamed_fault()
    return found
