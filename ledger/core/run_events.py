"""The events of a run and what each changes. Folding is total: an entry in the log is a fact.

Each class pairs an event body with its effect on the aggregate. `Recorded` carries the envelope
that the fold needs (actor, index, time); an event type unknown to this build folds to nothing but
marks the run as not drivable here (formats, section 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, ClassVar, Final

from eventsourcing.domain import CanMutateAggregate

from ledger.core import events
from ledger.core.body import Body
from ledger.core.canonical import JsonObject, encode
from ledger.core.envelope import COMMITMENT_ALGORITHM
from ledger.core.ids import LEDGER_ACTOR, PrincipalId, RequestId
from ledger.core.run import Lease, Run
from ledger.core.step import Arguments, Attempt, Decision, Proposal, Step
from ledger.core.value import value
from ledger.core.vocabulary import (
    ActorKind,
    Auth,
    LeaseEnd,
    Outcome,
    Role,
    StepState,
    Verdict,
)


@value()
class Actor:
    """Who made an event, in which role, and how authenticated."""

    id: PrincipalId
    kind: ActorKind
    auth: Auth
    role: str

    def to_json(self) -> JsonObject:
        """As it stands in an entry."""
        return {
            "auth": self.auth.value,
            "id": self.id,
            "kind": self.kind.value,
            "role": self.role,
        }


@lru_cache(maxsize=4_096)
def actor_bytes(actor: Actor) -> bytes:
    """An actor's canonical bytes: few actors make many events."""
    return encode(actor.to_json())


LEDGER: Final = Actor(LEDGER_ACTOR, ActorKind.SYSTEM, Auth.INTERNAL, "system")
"""The actor of events that the ledger makes itself (rules, section 10)."""


@value()
class SealedRef:
    """A payload as an entry names it. `fingerprint` compares arguments; it stands in no entry."""

    id: str
    name: str
    key_id: str
    media_type: str
    commitment: str
    fingerprint: bytes = b""

    def to_text(self) -> str:
        """As it stands in an entry. A media type's parameters may hold what JSON escapes."""
        media_type = self.media_type
        if '"' in media_type or "\\" in media_type:
            media_type = encode(media_type)[1:-1].decode()
        return (
            f'{{"alg":"{COMMITMENT_ALGORITHM}","commitment":"{self.commitment}","id":"{self.id}",'
            f'"key":"{self.key_id}","media_type":"{media_type}","name":"{self.name}"}}'
        )


class RunEvent(CanMutateAggregate[str]):
    """One recorded event of a run. Immutable by agreement; made some thousand times a second, so
    not a frozen dataclass, whose construction costs four times as much."""

    TYPE: ClassVar[str] = ""
    body: Any
    not_understood: str = ""

    def __init__(
        self,
        *,
        originator_id: str,
        originator_version: int,
        timestamp: datetime,
        body: Body,
        actor: Actor,
        request_id: RequestId,
        digest: str,
        part: int,
        index: int,
        recorded_us: int,
        payloads: Sequence[SealedRef] = (),
        trace: str = "",
    ) -> None:
        self.originator_id = originator_id
        self.originator_version = originator_version
        self.timestamp = timestamp
        self.body = body
        self.actor = actor
        self.request_id = request_id
        self.digest = digest
        self.part = part
        self.index = index
        self.recorded_us = recorded_us
        self.payloads = payloads
        self.trace = trace

    def apply(self, aggregate: Run) -> None:
        """Folds the event into its run."""
        if self.TYPE not in events.FIRST_TYPES:
            aggregate.later_types.add(self.TYPE or self.not_understood)
        aggregate.index = self.index
        aggregate.changed_us = self.recorded_us
        self.fold(aggregate)

    def fold(self, run: Run) -> None:
        """What this event changes."""

    def to_bytes(self) -> bytes:
        """The event's canonical bytes (formats, section 1), as they are spliced into its entry.

        Members are written in their sorted order; only the body goes through the encoder. The
        rest is ids, hashes and integers that were checked before and need no escaping. A test
        holds this to the encoder of the whole event.
        """
        trace = f'"trace":"{self.trace}",' if self.trace else ""
        payloads = ",".join([payload.to_text() for payload in self.payloads])
        tail = (
            f',"payloads":[{payloads}],"request":{{"digest":"{self.digest}",'
            f'"id":"{self.request_id}","part":{self.part}}},{trace}"type":"{self.body.TYPE}"}}'
        )
        body = encode(self.body.to_json())
        return b"".join((b'{"actor":', actor_bytes(self.actor), b',"body":', body, tail.encode()))

    def _drives(self, run: Run) -> None:
        if self.actor.id != LEDGER_ACTOR:
            run.drivers.add(self.actor.id)

    def _touch(self, run: Run, *, changes: bool = True) -> Step:
        step = run.steps[self.body.step]
        step.changed_version = self.originator_version - 1
        if changes:
            step.version = self.index
            # A proposal stands only for the step as its proposer saw it (rules, section 4).
            step.proposals = []
        return step

    def _payload_id(self, name: str) -> str:
        for payload in self.payloads:
            if payload.name == name:
                return payload.id
        return ""


class RunOpened(RunEvent):
    """`run.opened`."""

    TYPE = events.RunOpened.TYPE
    body: events.RunOpened

    def fold(self, run: Run) -> None:
        """The opener and the initiator may not decide in it."""
        run.opened_by = self.actor.id
        run.opened_us = self.recorded_us
        run.initiator = self.body.initiator
        run.parent = self.body.parent
        run.ceiling = self.body.ceiling
        run.labels = self.body.labels
        self._drives(run)
        if self.body.initiator:
            run.drivers.add(self.body.initiator)


class RunClosed(RunEvent):
    """`run.closed`: ends driving, and the lease with it."""

    TYPE = events.RunClosed.TYPE
    body: events.RunClosed

    def fold(self, run: Run) -> None:
        """No lease entry follows."""
        run.status = self.body.status
        run.reason = self.body.reason
        if run.lease.token and run.lease.ended is LeaseEnd.NOT_ENDED:
            run.lease.ended = LeaseEnd.RELEASED
        self._drives(run)


class LeaseAcquired(RunEvent):
    """`lease.acquired`."""

    TYPE = events.LeaseAcquired.TYPE
    body: events.LeaseAcquired

    def fold(self, run: Run) -> None:
        """Tokens only grow; a streak of leases of one process is remembered by its first."""
        before = run.lease
        token, process = self.body.token, self.body.process
        streak = before.streak_from if before.token and before.process == process else token
        run.lease = Lease(
            token,
            self.body.holder,
            self.actor.id,
            process,
            self.body.expires_at,
            LeaseEnd.NOT_ENDED,
            streak,
        )
        self._drives(run)


class LeaseReleased(RunEvent):
    """`lease.released`."""

    TYPE = events.LeaseReleased.TYPE

    def fold(self, run: Run) -> None:
        """The lease ends."""
        run.lease.ended = LeaseEnd.RELEASED


class LeaseExpired(RunEvent):
    """`lease.expired`."""

    TYPE = events.LeaseExpired.TYPE

    def fold(self, run: Run) -> None:
        """The lease ends."""
        run.lease.ended = LeaseEnd.EXPIRED


class LeaseBroken(RunEvent):
    """`lease.broken`."""

    TYPE = events.LeaseBroken.TYPE

    def fold(self, run: Run) -> None:
        """The lease ends."""
        run.lease.ended = LeaseEnd.BROKEN


class StepPlanned(RunEvent):
    """`step.planned`."""

    TYPE = events.StepPlanned.TYPE
    body: events.StepPlanned

    def fold(self, run: Run) -> None:
        """A new step, in the order of planning."""
        run.require_whole()
        body = self.body
        sealed = next(payload for payload in self.payloads if payload.name == "arguments")
        run.add_step(
            Step(
                id=body.step,
                ordinal=len(run.steps),
                tool=body.tool,
                tool_version=body.version,
                effect=body.effect,
                key=body.key,
                after=body.after,
                supersedes=body.supersedes,
                arguments=Arguments(sealed.id, sealed.key_id, sealed.fingerprint),
                version=self.index,
                changed_version=self.originator_version - 1,
            )
        )
        self._drives(run)


class StepStarted(RunEvent):
    """`step.started`."""

    TYPE = events.StepStarted.TYPE
    body: events.StepStarted

    def fold(self, run: Run) -> None:
        """A further attempt."""
        step = self._touch(run)
        run.move_step(step, StepState.STARTED)
        step.cause = ""
        step.attempts.append(
            Attempt(
                self.body.attempt,
                self.body.token,
                self.body.process,
                self.actor.id,
                self.index,
                self.body.deadline,
            )
        )
        self._drives(run)


class StepCompleted(RunEvent):
    """`step.completed`."""

    TYPE = events.StepCompleted.TYPE
    body: events.StepCompleted

    def fold(self, run: Run) -> None:
        """Settles its attempt; a success settles them all."""
        step = self._touch(run)
        run.move_step(step, self.body.state)
        outcome = self.body.outcome
        step.attempts[self.body.attempt - 1].settled = outcome.value
        if outcome is Outcome.SUCCEEDED:
            for attempt in step.attempts:
                attempt.settled = attempt.settled or "SETTLED"
        step.result_id = self._payload_id("result")
        step.settled_index = self.index
        step.settled_by = self.actor.id
        if self.body.state is StepState.UNKNOWN:
            step.cause = "earlier_attempt_unsettled"
            step.since_us = self.recorded_us
        self._drives(run)


class StepUnknown(RunEvent):
    """`step.unknown`."""

    TYPE = events.StepUnknown.TYPE
    body: events.StepUnknown

    def fold(self, run: Run) -> None:
        """Waits for a decision from now on."""
        step = self._touch(run)
        run.move_step(step, StepState.UNKNOWN)
        step.cause = self.body.cause
        step.since_us = self.recorded_us
        self._drives(run)


class StepReplayed(RunEvent):
    """`step.replayed`."""

    TYPE = events.StepReplayed.TYPE
    body: events.StepReplayed

    def fold(self, run: Run) -> None:
        """Settled as its key is; the result stays with the step that settled the key."""
        step = self._touch(run)
        run.move_step(step, self.body.state)
        step.settled_index = self.body.settled_by
        step.settled_by = self.actor.id


class StepWithdrawn(RunEvent):
    """`step.withdrawn`."""

    TYPE = events.StepWithdrawn.TYPE

    def fold(self, run: Run) -> None:
        """Never to be planned again."""
        run.move_step(self._touch(run), StepState.WITHDRAWN)
        self._drives(run)


class StepReconcileProposed(RunEvent):
    """`step.reconcile_proposed`."""

    TYPE = events.StepReconcileProposed.TYPE
    body: events.StepReconcileProposed

    def fold(self, run: Run) -> None:
        """Changes no state; takes the place of what the same person proposed before. Whoever
        proposes is no driver for it."""
        step = self._touch(run, changes=False)
        body = self.body
        step.proposals = [p for p in step.proposals if p.proposer != self.actor.id]
        step.proposals.append(
            Proposal(
                self.index,
                body.verdict,
                self.actor.id,
                body.reason_code,
                body.supersedes,
                self.recorded_us,
            )
        )


class StepReconciled(RunEvent):
    """`step.reconciled`."""

    TYPE = events.StepReconciled.TYPE
    body: events.StepReconciled

    def fold(self, run: Run) -> None:
        """Settles step and attempts, and clears a contradiction. SUCCEEDED is final: a decision
        on a contradiction of it leaves state and result (ADR 6)."""
        verdict = self.body.verdict
        executed = verdict is Verdict.EXECUTED
        proposed = run.steps[self.body.step].proposals
        proposers = sorted(p.proposer for p in proposed if p.verdict is verdict)
        step = self._touch(run)
        step.decisions.append(Decision(self.index, verdict, self.actor.id, tuple(proposers)))
        step.contradiction = False
        if self.body.before is StepState.SUCCEEDED:
            return
        run.move_step(
            step,
            StepState.RECONCILED_EXECUTED if executed else StepState.RECONCILED_NOT_EXECUTED,
        )
        step.result_id = self._payload_id("result") if executed else ""
        step.settled_index = self.index
        step.settled_by = self.actor.id


class EvidenceAttached(RunEvent):
    """`evidence.attached`."""

    TYPE = events.EvidenceAttached.TYPE
    body: events.EvidenceAttached

    def fold(self, run: Run) -> None:
        """Changes no state. A reviewer's facts and a definite outcome change what a decider has to
        have seen; what a confirmer could not tell counts for nothing (rules, section 6)."""
        if not self.body.step:
            return
        definite = bool(self.body.outcome)
        step = self._touch(run, changes=definite or self.actor.role == Role.RECONCILE)
        if self.actor.role == Role.CONFIRM and not definite:
            step.inconclusive.append((self.body.attempt, self.body.kind))
        if self.body.contradiction:
            if not step.contradiction and step.state is not StepState.UNKNOWN:
                step.since_us = self.recorded_us
            step.contradiction = True


class CancelRequested(RunEvent):
    """`cancel.requested`."""

    TYPE = events.CancelRequested.TYPE

    def fold(self, run: Run) -> None:
        """Nothing more may start."""
        run.cancel_requested = True


class LogEvent(RunEvent):
    """An event of the reserved run `_log`; it belongs to no run and folds into none."""


class NotUnderstood(RunEvent):
    """An event of a type that this build does not know, named by `not_understood`. Lawful, but the
    run is not drivable by this build."""


RUN_EVENTS: Final[dict[str, type[RunEvent]]] = {
    kind.TYPE: kind
    for kind in (
        RunOpened,
        RunClosed,
        LeaseAcquired,
        LeaseReleased,
        LeaseExpired,
        LeaseBroken,
        StepPlanned,
        StepStarted,
        StepCompleted,
        StepUnknown,
        StepReplayed,
        StepWithdrawn,
        StepReconcileProposed,
        StepReconciled,
        EvidenceAttached,
        CancelRequested,
    )
}
