"""The event types of version 1: what each says, member by member.

A body never changes: a changed one is a new type name. `docs/formats/events.schema.json` is drawn
from these classes, and a test holds the two together.
"""

from __future__ import annotations

from typing import ClassVar, Final

from ledger.core.body import Body, Flag, Id, Ids, Int, Labels, Name, Positive, Time
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


@value(kw_only=True)
class AccessRefused(Body):
    """Somebody was refused."""

    TYPE: ClassVar[str] = "access.refused"
    MEANING: ClassVar[str] = (
        "The actor asked for what he may not have: a missing role, a decision on his own run, "
        "another effect class than the bound or allowed one, another plan for a planned step. "
        "Nothing else was recorded for it. Once per principal and request id; a call without a "
        "request id has a random one. actor.role is none where no role of his allowed the method."
    )
    method: Id
    reason: Id
    run: Id = ""
    step: Id = ""


@value(kw_only=True)
class AccessPayloadRead(Body):
    """A payload was asked for and is handed out."""

    TYPE: ClassVar[str] = "access.payload_read"
    MEANING: ClassVar[str] = (
        "The payload that the entry at index of the log origin names is handed out to the actor; "
        "recorded before it is. name is the payload's name in that entry, run the entry's run."
    )
    origin: Name
    index: Int
    payload: Id
    name: Id
    run: Id


@value(kw_only=True)
class AccessLogRead(Body):
    """The access log itself was read."""

    TYPE: ClassVar[str] = "access.log_read"
    MEANING: ClassVar[str] = (
        "Entries of this access log are handed out to the actor from index start on, by method; "
        "recorded before they are."
    )
    method: Id
    start: Int


@value(kw_only=True)
class AccessExported(Body):
    """The log was copied."""

    TYPE: ClassVar[str] = "access.exported"
    MEANING: ClassVar[str] = (
        "The actor began to copy the log origin, from index start on; recorded before its first "
        "entry was handed out. The reader's own word: copying without saying so looks like reading."
    )
    origin: Name
    start: Int


@value(kw_only=True)
class AccessVerified(Body):
    """The log was read to verify it."""

    TYPE: ClassVar[str] = "access.verified"
    MEANING: ClassVar[str] = (
        "The actor began to read the log origin to verify it, from index start on; recorded before "
        "its first entry was handed out. The verdict is the reader's and stands nowhere here."
    )
    origin: Name
    start: Int


@value(kw_only=True)
class AccessAdministered(Body):
    """An administrative act."""

    TYPE: ClassVar[str] = "access.administered"
    MEANING: ClassVar[str] = (
        "An administrator's act is about to be done; recorded before it is. What came of a "
        "command stands in the tenant's log under the same request id, or nowhere if it was "
        "refused. Acts on the data folder have the actor that the operating system names."
    )
    act: Id
    run: Id = ""
    tool: Id = ""
    version: Id = ""
    origin: Name = ""
    size: Int = 0


@value(kw_only=True)
class AccessSuppressed(Body):
    """Refusals beyond the rate were only counted."""

    TYPE: ClassVar[str] = "access.suppressed"
    MEANING: ClassVar[str] = (
        "count refusals of the principal, the first of them at since, came faster than the server "
        "records them and have no entries of their own. Made by the ledger."
    )
    principal: Id
    count: Positive
    since: Time


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
        AccessRefused,
        AccessPayloadRead,
        AccessLogRead,
        AccessExported,
        AccessVerified,
        AccessAdministered,
        AccessSuppressed,
    )
}
"""Every event type that this build writes and understands."""


FIRST_TYPES: Final = frozenset(
    {
        "run.opened",
        "run.closed",
        "lease.acquired",
        "lease.released",
        "lease.expired",
        "lease.broken",
        "step.planned",
        "step.started",
        "step.completed",
        "step.unknown",
        "step.replayed",
        "step.withdrawn",
        "step.reconciled",
        "evidence.attached",
        "cancel.requested",
    }
)
"""Types of a run that every release understands: those of 0.1.0. Never grows."""


def check_body(event_type: str, body: JsonObject) -> None:
    """Check a body against its type's closed schema; a type unknown here passes (formats, section
    1).

    Raises `Malformed` with a path rooted at `$.event.body`.
    """
    known = BODIES.get(event_type)
    if known is not None:
        known.from_json(body)
