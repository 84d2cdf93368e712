"""The door through which commands come in, with the access log beside it.

An administrator's act is recorded before it is done, a refusal before it is told. What cannot be
recorded is answered ACCESS_NOT_RECORDED: nothing was appended either way, so the same request may
be sent again, and is recorded then. A command that is neither costs a look at its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from ledger.access import AccessLogs
from ledger.access_appending import AccessNotRecorded
from ledger.core.access import RECORDED_REFUSALS, Access, actor_of
from ledger.core.answers import Answered, LeaseGranted
from ledger.core.commands import (
    AllowDowngrade,
    BreakLease,
    Caller,
    RenewLease,
    Request,
    allowing_role,
)
from ledger.core.events import AccessAdministered, AccessRefused
from ledger.core.refusals import Refused
from ledger.failures import Failure, FailureKind
from ledger.store.errors import StoreError

_ADMINISTERS: Final = (BreakLease, AllowDowngrade)


class Inner(Protocol):
    """The door behind this one."""

    async def submit(self, requests: Sequence[Request]) -> list[Answered | Failure]:
        """See `ledger.door.Door`."""

    async def renew(self, caller: Caller, command: RenewLease) -> LeaseGranted | Refused | Failure:
        """See `ledger.door.Door`."""


class AccessDoor:
    """Records around `Inner`. Belongs to one event loop."""

    def __init__(self, inner: Inner, accesses: AccessLogs) -> None:
        self._inner = inner
        self._accesses = accesses

    async def submit(self, requests: Sequence[Request]) -> list[Answered | Failure]:
        """See `Sequencer.submit`. One commit records all refusals of a message."""
        acts = [
            act for one in requests if isinstance(one.command, _ADMINISTERS) for act in _act(one)
        ]
        if acts:
            failed = await self._recorded(requests, acts)
            if failed is not None:
                return [failed] * len(requests)
        outcomes = await self._inner.submit(requests)
        refused = [
            at
            for at, outcome in enumerate(outcomes)
            if isinstance(outcome, Answered)
            and isinstance(outcome.answer, Refused)
            and outcome.answer.reason in RECORDED_REFUSALS
        ]
        if refused:
            await self._record_refusals(requests, outcomes, refused)
        return outcomes

    async def renew(self, caller: Caller, command: RenewLease) -> LeaseGranted | Refused | Failure:
        """See `Sequencer.renew`."""
        return await self._inner.renew(caller, command)

    async def _recorded(
        self, requests: Sequence[Request], acts: Sequence[Access]
    ) -> Failure | None:
        try:
            await self._accesses.record(requests[0].caller.tenant, acts)
        except (AccessNotRecorded, StoreError) as why:
            return _failure(why)
        return None

    async def _record_refusals(
        self,
        requests: Sequence[Request],
        outcomes: list[Answered | Failure],
        refused: Sequence[int],
    ) -> None:
        accesses = [
            _refusal(requests[at], outcome.answer)
            for at in refused
            if isinstance(outcome := outcomes[at], Answered) and isinstance(outcome.answer, Refused)
        ]
        try:
            await self._accesses.record_refusals(requests[0].caller.tenant, accesses)
        except (AccessNotRecorded, StoreError) as why:
            for at in refused:
                outcomes[at] = _failure(why)


def _act(request: Request) -> list[Access]:
    """What is recorded before an act; nothing where the caller may not do it: that is refused."""
    role = allowing_role(request.command, request.caller)
    if role is None:
        return []
    command = request.command
    body = AccessAdministered(
        act=request.method,
        run=getattr(command, "run", ""),
        tool=getattr(command, "tool", ""),
        version=getattr(command, "version", ""),
    )
    return [
        Access(
            actor_of(request.caller, role),
            request.id,
            body,
            request.digest.hex(),
            once=True,
            trace=request.trace,
        )
    ]


def _refusal(request: Request, refused: Refused) -> Access:
    command = request.command
    body = AccessRefused(
        method=request.method,
        reason=refused.reason.name,
        run=getattr(command, "run", ""),
        step=refused.step or getattr(command, "step", ""),
    )
    return Access(
        actor_of(request.caller, allowing_role(command, request.caller)),
        request.id,
        body,
        request.digest.hex(),
        once=True,
        trace=request.trace,
    )


def _failure(why: AccessNotRecorded | StoreError) -> Failure:
    wait_ms = why.retry_after_ms if isinstance(why, AccessNotRecorded) else 500
    return Failure(FailureKind.ACCESS_NOT_RECORDED, wait_ms)
