"""Commands: what a caller asks for, as one value whatever door it came through.

A command is checked for form before it becomes one of these. Durations are in milliseconds and
given by the client; times are the ledger's and stand in no command. Payloads are the caller's plain
bytes here; they are sealed before the head is locked and never reach an entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from ledger.core.ids import (
    HolderName,
    Key,
    PrincipalId,
    ProcessNonce,
    RequestId,
    RunId,
    StepId,
    SubjectId,
    Tenant,
    ToolName,
    ToolVersion,
)
from ledger.core.value import value
from ledger.core.vocabulary import ActorKind, Auth, EffectClass, Outcome, Role, RunStatus, Verdict

LEASE_TTL_MS_DEFAULT: Final = 30_000
LEASE_TTL_MS_MIN: Final = 5_000
LEASE_TTL_MS_MAX: Final = 3_600_000
OPERATION_MS_DEFAULT: Final = 60_000
OPERATION_MS_MIN: Final = 1_000
OPERATION_MS_MAX: Final = 86_400_000
AFTER_MAX: Final = 64
EVIDENCE_MAX: Final = 32
LABELS_MAX: Final = 16
ATTEMPTS_MAX: Final = 100
OPEN_STEPS_MAX: Final = 2_000
"""Steps of one run that are planned or started: what ends the run writes one event for each."""


@value()
class Caller:
    """The authenticated principal of a request: from the credential, never from the request."""

    tenant: Tenant
    principal: PrincipalId
    kind: ActorKind
    auth: Auth
    roles: frozenset[Role]


@value()
class Payload:
    """Plain bytes of a caller. `subject` empty: the run's subject, else the run itself."""

    content: bytes
    media_type: str = "application/octet-stream"
    subject: SubjectId = SubjectId("")


Slot = tuple[str, int]
"""Which payload of a command: its name in the entry, and its ordinal among those of that name."""


@value()
class OpenRun:
    """Opens a run."""

    roles: ClassVar[tuple[Role, ...]] = (Role.DRIVE,)
    run: RunId
    initiator: PrincipalId = PrincipalId("")
    ceiling: EffectClass = EffectClass.NON_IDEMPOTENT_WRITE
    parent: RunId = RunId("")
    labels: tuple[tuple[str, str], ...] = ()
    subject: SubjectId = SubjectId("")

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """None."""
        return iter(())


@value()
class AcquireLease:
    """Takes the right to drive a run for `ttl_ms` (5,000 to 3,600,000)."""

    roles: ClassVar[tuple[Role, ...]] = (Role.DRIVE,)
    run: RunId
    holder: HolderName
    process: ProcessNonce
    ttl_ms: int = LEASE_TTL_MS_DEFAULT

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """None."""
        return iter(())


@value()
class RenewLease:
    """Extends a live lease to `ttl_ms` from now. Appends nothing; never queued with appends."""

    roles: ClassVar[tuple[Role, ...]] = (Role.DRIVE,)
    run: RunId
    token: int
    process: ProcessNonce
    ttl_ms: int = LEASE_TTL_MS_DEFAULT


@value()
class ReleaseLease:
    """Gives a lease back."""

    roles: ClassVar[tuple[Role, ...]] = (Role.DRIVE,)
    run: RunId
    token: int
    stop_reason: str = ""

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """None."""
        return iter(())


@value()
class BreakLease:
    """Takes a lease away from its holder."""

    roles: ClassVar[tuple[Role, ...]] = (Role.ADMIN,)
    run: RunId
    reason: str

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """None."""
        return iter(())


@value()
class StepPlan:
    """One step to plan. `effect` None takes the bound class. `key` empty derives one.

    `raw_key` holds the caller's bytes where they may not stand in an entry: they are sealed.
    """

    step: StepId
    tool: ToolName
    version: ToolVersion
    arguments: Payload
    effect: EffectClass | None = None
    key: Key = Key("")
    raw_key: bytes = b""
    after: tuple[StepId, ...] = ()
    supersedes: Key = Key("")


@value()
class PlanSteps:
    """Plans steps, all or none."""

    roles: ClassVar[tuple[Role, ...]] = (Role.DRIVE,)
    run: RunId
    token: int
    process: ProcessNonce
    steps: tuple[StepPlan, ...]

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """The arguments of each step, and keys that may not stand in an entry."""
        for ordinal, step in enumerate(self.steps):
            yield ("arguments", ordinal), step.arguments
            if step.raw_key:
                yield ("key", ordinal), Payload(step.raw_key, subject=step.arguments.subject)


@value()
class StartStep:
    """Asks to start a step; `operation_ms` is how long the attempt may run."""

    roles: ClassVar[tuple[Role, ...]] = (Role.DRIVE,)
    run: RunId
    step: StepId
    token: int
    process: ProcessNonce
    version: ToolVersion
    operation_ms: int = OPERATION_MS_DEFAULT

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """None."""
        return iter(())


@value()
class CompleteStep:
    """Reports what came of an attempt."""

    roles: ClassVar[tuple[Role, ...]] = (Role.DRIVE,)
    run: RunId
    step: StepId
    attempt: int
    token: int
    outcome: Outcome
    result: Payload | None = None
    external_reference: Payload | None = None

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """Result and external reference, where given."""
        if self.result is not None:
            yield ("result", 0), self.result
        if self.external_reference is not None:
            yield ("external_reference", 0), self.external_reference


@value()
class MarkUnknown:
    """Reports that nobody can say what came of an attempt."""

    roles: ClassVar[tuple[Role, ...]] = (Role.DRIVE,)
    run: RunId
    step: StepId
    attempt: int
    token: int
    cause: str
    note: Payload | None = None

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """The note, where given."""
        if self.note is not None:
            yield ("note", 0), self.note


@value()
class WithdrawStep:
    """Takes a planned step back before any start."""

    roles: ClassVar[tuple[Role, ...]] = (Role.DRIVE,)
    run: RunId
    step: StepId
    token: int
    process: ProcessNonce
    reason: str = ""

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """None."""
        return iter(())


@value()
class AttachEvidence:
    """Attaches facts; `dropped` counts lost best-effort records where `kind` is `gap`."""

    roles: ClassVar[tuple[Role, ...]] = (Role.DRIVE, Role.RECONCILE, Role.CONFIRM)
    run: RunId
    kind: str
    step: StepId = StepId("")
    attempt: int = 0
    token: int = 0
    dropped: int = 0
    outcome: Outcome | None = None
    evidence: tuple[Payload, ...] = ()

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """The items, in order."""
        for ordinal, payload in enumerate(self.evidence):
            yield ("evidence", ordinal), payload


@value()
class RequestCancel:
    """Asks a run to stop."""

    roles: ClassVar[tuple[Role, ...]] = (Role.CANCEL, Role.DRIVE)
    run: RunId
    reason: str = ""

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """None."""
        return iter(())


@value()
class CloseRun:
    """Closes a run."""

    roles: ClassVar[tuple[Role, ...]] = (Role.DRIVE,)
    run: RunId
    token: int
    process: ProcessNonce
    status: RunStatus
    reason: str = ""

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """None."""
        return iter(())


@value()
class Reconcile:
    """Settles an unknown step. `supersedes_index` names the decision it supersedes, None if
    first; `proposal_index` the proposal it confirms, None where it takes none."""

    roles: ClassVar[tuple[Role, ...]] = (Role.RECONCILE, Role.CONFIRM)
    run: RunId
    step: StepId
    verdict: Verdict
    reason_code: str
    expected_version: int
    supersedes_index: int | None = None
    reason: Payload | None = None
    evidence: tuple[Payload, ...] = ()
    result: Payload | None = None
    proposal_index: int | None = None

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """Reason, evidence and result, where given."""
        if self.reason is not None:
            yield ("reason", 0), self.reason
        for ordinal, payload in enumerate(self.evidence):
            yield ("evidence", ordinal), payload
        if self.result is not None:
            yield ("result", 0), self.result


@value()
class ProposeDecision:
    """The first of two people's words on an unknown step; changes no state. Fields as of
    Reconcile."""

    roles: ClassVar[tuple[Role, ...]] = (Role.RECONCILE, Role.CONFIRM)
    run: RunId
    step: StepId
    verdict: Verdict
    reason_code: str
    expected_version: int
    supersedes_index: int | None = None
    reason: Payload | None = None
    evidence: tuple[Payload, ...] = ()
    result: Payload | None = None

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """Reason, evidence and result, where given."""
        if self.reason is not None:
            yield ("reason", 0), self.reason
        for ordinal, payload in enumerate(self.evidence):
            yield ("evidence", ordinal), payload
        if self.result is not None:
            yield ("result", 0), self.result


@value()
class AllowDowngrade:
    """Permits a weaker class for one version of a tool."""

    roles: ClassVar[tuple[Role, ...]] = (Role.ADMIN,)
    tool: ToolName
    version: ToolVersion
    effect: EffectClass
    reason: str

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """None."""
        return iter(())


@value()
class SweepRun:
    """The ledger's own: performs what is due on a run whose holder may be dead. No client sends
    it."""

    roles: ClassVar[tuple[Role, ...]] = ()
    run: RunId

    def payloads(self) -> Iterator[tuple[Slot, Payload]]:
        """None."""
        return iter(())


Command = (
    OpenRun
    | AcquireLease
    | ReleaseLease
    | BreakLease
    | PlanSteps
    | StartStep
    | CompleteStep
    | MarkUnknown
    | WithdrawStep
    | AttachEvidence
    | RequestCancel
    | CloseRun
    | Reconcile
    | ProposeDecision
    | AllowDowngrade
    | SweepRun
)


@value()
class Request:
    """A command with who sent it and under which id.

    `digest` is that of rules, section 8; `method` names the command (`StartStep`). `deadline_ns` is
    the caller's deadline on this process's monotonic clock: past it the command is dropped while it
    is still queued.
    """

    caller: Caller
    id: RequestId
    digest: bytes
    command: Command
    trace: str = ""
    deadline_ns: int | None = None
    size_bytes: int = 0

    @property
    def method(self) -> str:
        """The command's name, as its RPC is called."""
        return type(self.command).__name__


def allowing_role(command: Command, caller: Caller) -> Role | None:
    """The role that allows `caller` this command (rules, section 1), or None.

    `confirm` decides only as a principal of kind `confirmer`, and a runtime never decides whatever
    roles it was given (contract, section 4).
    """
    for role in command.roles:
        if role not in caller.roles:
            continue
        if role is Role.CONFIRM and caller.kind is not ActorKind.CONFIRMER:
            continue
        if isinstance(command, Reconcile | ProposeDecision) and caller.kind is ActorKind.RUNTIME:
            continue
        return role
    return None


def reports_started_work(command: Command) -> bool:
    """Whether a command tells what came of something that was started, or gives a lease back: it
    has reserved room, and is still taken while the server drains (contract, section 7)."""
    match command:
        case CompleteStep() | MarkUnknown() | ReleaseLease():
            return True
        case AttachEvidence():
            return bool(command.step)
        case _:
            return False
