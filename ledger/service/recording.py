"""What the services have recorded in the access log before they answer (contract, section 10).

Refusals of commands are recorded behind the door (`ledger.access_door`); here are reads, and the
refusals of calls that are no commands. Those have no request id, so each has a random one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from ledger.access import AccessLogs
from ledger.batch import random_request_id
from ledger.core.access import Access, Recorded, actor_of, role_among
from ledger.core.body import Body
from ledger.core.commands import Caller
from ledger.core.events import AccessRefused
from ledger.core.log import Log
from ledger.core.refusals import Reason
from ledger.core.request_digest import Present, request_digest
from ledger.core.vocabulary import Role
from ledger.service.boundary import Call
from ledger.service.request_content import content_digest
from ledger.tenants import UnknownTenant
from ledger.v1 import log_service_pb2, review_service_pb2, run_service_pb2

_FILES: Final = (log_service_pb2, review_service_pb2, run_service_pb2)


class Recording:
    """Belongs to one event loop. Everything raises `AccessNotRecorded` where it cannot be recorded,
    and then nothing may be handed out."""

    def __init__(self, accesses: AccessLogs) -> None:
        self._accesses = accesses

    async def log_of(self, call: Call) -> Log:
        """The caller's access log."""
        return await self._accesses.log(call.caller.tenant)

    async def role_missing(self, caller: Caller, method: str, trace: str, octets: bytes) -> None:
        """Records that a caller has no role for a method, `octets` being its request. Where the
        tenant has no log there is none to record it in either."""
        body = AccessRefused(method=method, reason=Reason.ROLE_MISSING.name)
        digest = _digest_of_octets(method, octets)
        access = Access(actor_of(caller, None), random_request_id(), body, digest, trace=trace)
        try:
            await self._accesses.record_refusals(caller.tenant, [access])
        except UnknownTenant:
            return

    async def read(
        self, call: Call, body: Body, message: Message, *, roles: Iterable[Role]
    ) -> Recorded:
        """Records a read that one of `roles` allows, before anything is answered."""
        access = Access(
            actor_of(call.caller, role_among(call.caller, roles)),
            random_request_id(),
            body,
            read_digest(call.method, message).hex(),
            trace=call.trace,
        )
        return await self._accesses.record_read(call.caller.tenant, access)


def read_digest(method: str, message: Message) -> bytes:
    """`request.digest` of a call that is no command, by the rules for commands."""
    if isinstance(message, log_service_pb2.GetReceiptRequest):
        # The one request that names a thing by one of several scalars: the one it names counts.
        field = message.WhichOneof("append")
        named: Any = [] if field is None else [(_number(message, field), getattr(message, field))]
        fields = [(number, Present(value)) for number, value in named]
        return request_digest(method, [*fields, (_number(message, "log"), message.log)])
    return content_digest(method, message)


def _number(message: Message, field: str) -> int:
    return message.DESCRIPTOR.fields_by_name[field].number


def _digest_of_octets(method: str, octets: bytes) -> str:
    """Of a request that was refused unread: one that cannot be read counts as without content."""
    kind = request_kinds()[method]
    try:
        message = kind.FromString(octets)
    except DecodeError:
        message = kind()
    return read_digest(method, message).hex()


@cache
def request_kinds() -> dict[str, type[Message]]:
    """The request of each method of the services."""
    return {
        method.name: GetMessageClass(method.input_type)
        for file in _FILES
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
