"""The event types of version 1: what each says, member by member.

A body never changes: a changed one is a new type name. `docs/formats/events.schema.json` is drawn
from these classes, and a test holds the two together.
"""

from __future__ import annotations

from typing import ClassVar, Final

from ledger.core.body import Body, Flag, Id, Ids, Int, Labels, Positive, Time
from ledger.core.canonical import JsonObject
from ledger.core.value import value
from ledger.core.vocabulary import EffectClass, Outcome, RunStatus, StepState, Verdict


@value(kw_only=True)
class RunOpened(Body):
    """First entry of a run."""

    TYPE: ClassVar[str] = "run.opened"
    MEANING: ClassVar[str] = "A run was opened. Always version 0 of its run."
    initiator: Id = ""
    ceiling: EffectClass = EffectClass.NON_IDEMPOTENT_WRITE
    parent: Id = ""
    labels: Labels = ()


@value(kw_only=True)
class RunClosed(Body):
    """Ends driving."""

    TYPE: ClassVar[str] = "run.closed"
    MEANING: ClassVar[str] = (
        "The run ended. Its own version and prev are the run's count and head; afterwards only "
        "decisions, proposals and evidence may follow. Ends the lease."
    )
    status: RunStatus
    reason: Id = ""


@value(kw_only=True)
class LeaseAcquired(Body):
    """A lease was given."""

    TYPE: ClassVar[str] = "lease.acquired"
    MEANING: ClassVar[str] = (
        "The right to drive the run was given until expires_at, unless renewed (renewals write no "
        "entry). process is the nonce of the process that alone may use it."
    )
    token: Positive
    holder: Id
    process: Id
    expires_at: Time


@value(kw_only=True)
class LeaseReleased(Body):
    """A lease was given back."""

    TYPE: ClassVar[str] = "lease.released"
    MEANING: ClassVar[str] = "The holder gave the lease back."
    token: Positive
    stop_reason: Id = ""


@value(kw_only=True)
class LeaseExpired(Body):
    """A lease was found past."""

    TYPE: ClassVar[str] = "lease.expired"
    MEANING: ClassVar[str] = "The lease was found past its time. Once per token."
    token: Positive


@value(kw_only=True)
class LeaseBroken(Body):
    """A lease was taken away."""

    TYPE: ClassVar[str] = "lease.broken"
    MEANING: ClassVar[str] = "An admin took the lease away."
    token: Positive
    reason: Id


@value(kw_only=True)
class StepPlanned(Body):
    """A step was planned."""

    TYPE: ClassVar[str] = "step.planned"
    MEANING: ClassVar[str] = (
        "A step was planned; immutable. Payload `arguments` holds the exact argument bytes, "
        "payload `key` the caller's key where it may not stand here. No key for READ_ONLY and "
        "PROPOSE."
    )
    step: Id
    tool: Id
    version: Id
    effect: EffectClass
    key: Id = ""
    after: Ids = ()
    supersedes: Id = ""


@value(kw_only=True)
class StepStarted(Body):
    """An attempt was allowed."""

    TYPE: ClassVar[str] = "step.started"
    MEANING: ClassVar[str] = (
        "An attempt was allowed to run until deadline. Claims the key; takes the place of the key "
        "it supersedes."
    )
    step: Id
    attempt: Positive
    token: Positive
    process: Id
    deadline: Time
    key: Id = ""
    supersedes: Id = ""


@value(kw_only=True)
class StepCompleted(Body):
    """An attempt ended."""

    TYPE: ClassVar[str] = "step.completed"
    MEANING: ClassVar[str] = (
        "An attempt ended. state is where the step stands then: UNKNOWN when an earlier attempt is "
        "not settled and this one had no success. Payloads `result` and `external_reference`. "
        "cause holder_lost: the ledger closed a READ_ONLY or PROPOSE step of a dead holder."
    )
    step: Id
    attempt: Positive
    token: Positive
    outcome: Outcome
    state: StepState
    cause: Id = ""


@value(kw_only=True)
class StepUnknown(Body):
    """Nobody can say what came of an attempt."""

    TYPE: ClassVar[str] = "step.unknown"
    MEANING: ClassVar[str] = (
        "A started write whose outcome nobody can say. cause: the holder's word, or of the "
        "ledger's own holder_dead, lease_released, lease_broken."
    )
    step: Id
    attempt: Positive
    token: Positive
    cause: Id


@value(kw_only=True)
class StepReplayed(Body):
    """A step was answered from a settled key."""

    TYPE: ClassVar[str] = "step.replayed"
    MEANING: ClassVar[str] = (
        "The step was settled from its key, which the entry settled_by of this log had settled; "
        "the tool did not run."
    )
    step: Id
    key: Id
    state: StepState
    settled_by: Int
    run: Id
    source: Id


@value(kw_only=True)
class StepWithdrawn(Body):
    """A planned step was taken back."""

    TYPE: ClassVar[str] = "step.withdrawn"
    MEANING: ClassVar[str] = "A planned step was taken back before any start."
    step: Id
    reason: Id = ""


@value(kw_only=True)
class StepReconcileProposed(Body):
    """A first person proposed a decision."""

    TYPE: ClassVar[str] = "step.reconcile_proposed"
    MEANING: ClassVar[str] = (
        "Where two people decide, the first one's word; changes no state. It stands while the "
        "step's last entry that changes it is expected_version; then a second person's "
        "step.reconciled of the same verdict and expected_version confirms it. supersedes the "
        "index of the decision that would be replaced. Payloads `reason`, `evidence`, `result`."
    )
    step: Id
    verdict: Verdict
    reason_code: Id
    expected_version: Int
    before: StepState
    attempt: Positive
    key: Id = ""
    supersedes: Int = -1


@value(kw_only=True)
class StepReconciled(Body):
    """A decision settled an unknown."""

    TYPE: ClassVar[str] = "step.reconciled"
    MEANING: ClassVar[str] = (
        "A decision settled the step. expected_version is the index of the entry the decider had "
        "looked at; supersedes the index of the decision this one replaces. Payloads `reason`, "
        "`evidence`, `result`. supersedable: the step's key may now be superseded, once. before "
        "SUCCEEDED: the step stays so; only what contradicted it is settled."
    )
    step: Id
    verdict: Verdict
    reason_code: Id
    expected_version: Int
    before: StepState
    attempt: Positive
    key: Id = ""
    supersedes: Int = -1
    supersedable: Flag = False


@value(kw_only=True)
class EvidenceAttached(Body):
    """Facts; changes no state."""

    TYPE: ClassVar[str] = "evidence.attached"
    MEANING: ClassVar[str] = (
        "Facts about the run, a step or an attempt; changes no state. kind late_completion: a "
        "report that came too late to settle, why is LATE or STALE_LEASE. contradiction: it "
        "contradicts what was settled; replayed names steps that were answered from the key. "
        "kind gap: dropped counts best-effort records that were lost."
    )
    kind: Id
    step: Id = ""
    attempt: Int = 0
    token: Int = 0
    outcome: Id = ""
    why: Id = ""
    dropped: Int = 0
    contradiction: Flag = False
    replayed: Ids = ()


@value(kw_only=True)
class CancelRequested(Body):
    """A run was asked to stop."""

    TYPE: ClassVar[str] = "cancel.requested"
    MEANING: ClassVar[str] = "The run was asked to stop; nothing more may start in it."
    reason: Id = ""


@value(kw_only=True)
class ToolDeclared(Body):
    """A tool's class was bound."""

    TYPE: ClassVar[str] = "tool.declared"
    MEANING: ClassVar[str] = (
        "The first plan of (tool, version) bound its effect class. Stands in `_log`, directly "
        "before that step.planned."
    )
    tool: Id
    version: Id
    effect: EffectClass


@value(kw_only=True)
class ToolDowngradeAllowed(Body):
    """A weaker class was permitted."""

    TYPE: ClassVar[str] = "tool.downgrade_allowed"
    MEANING: ClassVar[str] = (
        "An admin permits a class weaker than the tool was once recorded with, for one version. "
        "Stands in `_log`."
    )
    tool: Id
    version: Id
    effect: EffectClass
    reason: Id


BODIES: Final[dict[str, type[Body]]] = {
    body.TYPE: body
    for body in (
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
        ToolDeclared,
        ToolDowngradeAllowed,
    )
}
"""Every event type that this build writes and understands."""


def check_body(event_type: str, body: JsonObject) -> None:
    """Check a body against its type's closed schema; a type unknown here passes (formats, section
    1).

    Raises `Malformed` with a path rooted at `$.event.body`.
    """
    known = BODIES.get(event_type)
    if known is not None:
        known.from_json(body)
