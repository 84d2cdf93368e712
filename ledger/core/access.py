"""What is recorded of access: who was refused, who read what, which acts an administrator did.

Entries of this kind stand in the reserved run `_log` of a log of their own, so an entry's version
is its index. They are no part of what a request appended (rules, section 10).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from ledger.core.body import Body
from ledger.core.chain import ChainEvent
from ledger.core.commands import Caller
from ledger.core.draft import SYSTEM_DIGEST
from ledger.core.events import AccessSuppressed
from ledger.core.ids import LOG_RUN, Origin, RequestId
from ledger.core.refusals import Reason
from ledger.core.run_events import LEDGER, Actor, LogEvent
from ledger.core.value import value
from ledger.core.vocabulary import Role

RECORDED_REFUSALS: Final = frozenset(
    {
        Reason.CLASS_MISMATCH,
        Reason.CLASS_DOWNGRADE,
        Reason.ABOVE_CEILING,
        Reason.SELF_RECONCILE,
        Reason.OWN_PROPOSAL,
        Reason.PLAN_MISMATCH,
        Reason.ROLE_MISSING,
    }
)
"""Refusals on class, self-reconcile, plan mismatch and authorisation (contract, section 10)."""

NO_ROLE: Final = "none"
"""`actor.role` where no role of the caller allowed what was asked for."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@value()
class Access:
    """One thing to record. `once`: not again for the same actor, request id and type."""

    actor: Actor
    request_id: RequestId
    body: Body
    digest: str = SYSTEM_DIGEST
    once: bool = False
    trace: str = ""

    @property
    def at(self) -> tuple[str, str]:
        """Whose request: what a part is counted for."""
        return self.actor.id, self.request_id


@value()
class Recorded:
    """That an access stands in the access log, at `index`: what a read is handed out against."""

    index: int


def actor_of(caller: Caller, role: Role | None) -> Actor:
    """A caller as an entry names him; `role` is the one that allowed it, None if none did."""
    return Actor(caller.principal, caller.kind, caller.auth, role.value if role else NO_ROLE)


def role_among(caller: Caller, roles: Iterable[Role]) -> Role | None:
    """The role of the caller that allows a read, the first by name where several do."""
    return min(caller.roles.intersection(roles), default=None)


def suppressed(*, principal: str, count: int, since_us: int, request_id: RequestId) -> Access:
    """The ledger's own entry on refusals that were only counted."""
    body = AccessSuppressed(principal=principal, count=count, since=since_us)
    return Access(LEDGER, request_id, body)


def chain_events(
    accesses: Sequence[tuple[Access, int]], *, origin: Origin, size: int, now_us: int
) -> list[ChainEvent]:
    """The events of (access, part) pairs, ready to be chained onto an access log of `size`."""
    return [
        ChainEvent(
            LOG_RUN,
            size + at,
            access.body.TYPE,
            LogEvent(
                originator_id=f"{origin}#{LOG_RUN}",
                originator_version=size + at + 1,
                timestamp=_EPOCH + timedelta(microseconds=now_us),
                body=access.body,
                actor=access.actor,
                request_id=access.request_id,
                digest=access.digest,
                part=part,
                index=size + at,
                recorded_us=now_us,
                trace=access.trace,
            ).to_bytes(),
        )
        for at, (access, part) in enumerate(accesses)
    ]
