"""What the ledger answers, as typed values. Times are ledger time, UTC; durations are seconds.

Payload bytes never appear in a `repr`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from ledger.client.words import (
    Availability,
    Disposition,
    EffectClass,
    Outcome,
    Reason,
    RunStatus,
    StepState,
)

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True)
class Append:
    """Where the events of a command stand in the log. Durable once this is answered."""

    index: int
    leaf_hash: bytes
    tree_size: int
    entries: int
    recorded_at: datetime
    receipt: str = ""


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """Bytes the ledger handed out, or why it did not."""

    availability: Availability
    content: bytes = field(default=b"", repr=False)
    media_type: str = ""
    redacted_index: int = 0

    @property
    def present(self) -> bool:
        """Whether `content` is the payload."""
        return self.availability is Availability.PRESENT

    def json(self) -> Json:
        """The decoded JSON value. Raises `ValueError` if the payload is not present or not JSON."""
        if not self.present:
            raise ValueError(f"the payload is {self.availability.name}: nothing to decode")
        value: Json = json.loads(self.content)
        return value


@dataclass(frozen=True, slots=True)
class Lease:
    """The time-limited right to drive a run."""

    token: int
    holder: str
    principal: str
    expires_at: datetime | None
    remaining_s: float
    live: bool


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run as it stands. `status` is `UNSPECIFIED` while it is open."""

    run: str
    status: RunStatus
    reason: str
    opened_by: str
    initiator: str
    parent: str
    ceiling: EffectClass
    labels: Mapping[str, str]
    opened_at: datetime | None
    changed_at: datetime | None
    version: int
    index: int
    head: bytes
    lease: Lease | None
    cancel_requested: bool
    step_counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StepInfo:
    """A step as it stands. `version` is what a decision names as `expected_version`,
    `decision_index` what one that supersedes the standing decision names.
    """

    step: str
    tool: str
    tool_version: str
    effect_class: EffectClass
    key: str
    after: tuple[str, ...]
    supersedes: str
    state: StepState
    attempt: int
    token: int
    deadline: datetime | None
    version: int
    cause: str
    contradiction: bool
    decision_index: int | None = None


@dataclass(frozen=True, slots=True)
class ResumeStep:
    """A step with the exact bytes a new process needs to go on."""

    info: StepInfo
    arguments: StoredPayload
    result: StoredPayload
    ready: bool
    waiting_for: str

    @property
    def step(self) -> str:
        """The step's id."""
        return self.info.step

    @property
    def startable(self) -> bool:
        """Whether a start may be asked for now: waits for nothing, arguments at hand, and its state
        allows a start.
        """
        state, effect_class = self.info.state, self.info.effect_class
        return (
            self.ready
            and self.arguments.present
            and (
                state in (StepState.PLANNED, StepState.NO_EFFECT)
                or (state is StepState.FAILED and effect_class.harmless)
                or (state is StepState.UNKNOWN and effect_class is EffectClass.IDEMPOTENT_WRITE)
            )
        )


@dataclass(frozen=True, slots=True)
class ResumeState:
    """Everything a new process needs, in the order it was planned."""

    run: RunInfo
    steps: tuple[ResumeStep, ...]

    @property
    def ready(self) -> tuple[ResumeStep, ...]:
        """Steps that may be started now."""
        return tuple(step for step in self.steps if step.startable)

    @property
    def waiting(self) -> tuple[ResumeStep, ...]:
        """Planned steps that wait for another one."""
        return tuple(s for s in self.steps if s.info.state is StepState.PLANNED and not s.startable)

    @property
    def in_flight(self) -> tuple[ResumeStep, ...]:
        """Steps whose attempt may still be running."""
        return self._in(StepState.STARTED)

    @property
    def unknown(self) -> tuple[ResumeStep, ...]:
        """Steps of which nobody can say what came."""
        return self._in(StepState.UNKNOWN)

    @property
    def settled(self) -> tuple[ResumeStep, ...]:
        """Steps with a final outcome, by report or by decision."""
        return self._in(
            StepState.SUCCEEDED,
            StepState.FAILED,
            StepState.RECONCILED_EXECUTED,
            StepState.RECONCILED_NOT_EXECUTED,
            StepState.WITHDRAWN,
        )

    def _in(self, *states: StepState) -> tuple[ResumeStep, ...]:
        return tuple(step for step in self.steps if step.info.state in states)


@dataclass(frozen=True, slots=True)
class Execute:
    """Directive: run the tool once. `remaining_s` counts from when the answer was made."""

    token: int
    attempt: int
    deadline: datetime | None
    remaining_s: float
    key: str
    replayed: bool


@dataclass(frozen=True, slots=True)
class Replay:
    """Directive: settled before; use this result and do not run the tool."""

    outcome: Outcome
    result: StoredPayload
    run: str
    step: str
    settled_index: int
    state: StepState


@dataclass(frozen=True, slots=True)
class Held:
    """Directive: another live holder is in it."""

    run: str
    step: str
    attempt: int
    token: int
    holder: str
    until: datetime | None


@dataclass(frozen=True, slots=True)
class StandingProposal:
    """What one person proposes about a step, for a second one to confirm by its index."""

    index: int
    executed: bool
    reason_code: str
    proposer: str
    proposed_at: datetime | None


@dataclass(frozen=True, slots=True)
class UnknownStep:
    """An unsettled step, with the very ids that `reconcile` takes.

    `decision_index` is the standing decision's: what a superseding one names as
    `supersedes_index`. `proposals` stand where two people decide.
    """

    run: str
    step: str
    expected_version: int
    attempt: int = 0
    tool: str = ""
    tool_version: str = ""
    effect_class: EffectClass = EffectClass.UNSPECIFIED
    key: str = ""
    cause: str = ""
    since: datetime | None = None
    not_executed_from: datetime | None = None
    state: StepState = StepState.UNKNOWN
    contradiction: bool = False
    decision_index: int | None = None
    proposals: tuple[StandingProposal, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Directive or error: refused, with whether the identical request may succeed later."""

    reason: Reason
    may_succeed_later: bool
    message: str
    step: str = ""
    run: str = ""
    key: str = ""
    details: Mapping[str, str] = field(default_factory=dict)


Directive: TypeAlias = Execute | Replay | Held | UnknownStep | Refusal


@dataclass(frozen=True, slots=True)
class Opened:
    """The answer to opening a run. `append` is None when it was open before."""

    append: Append | None
    run: RunInfo


@dataclass(frozen=True, slots=True)
class LeaseGranted:
    """The answer to acquiring or renewing a lease."""

    append: Append | None
    lease: Lease
    cancel_requested: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """The answer to a plan: each step's key as it stands in entries, in the order of the
    request.
    """

    append: Append | None
    keys: tuple[str, ...]
    cancel_requested: bool


@dataclass(frozen=True, slots=True)
class Started:
    """The answer to a start."""

    append: Append | None
    directive: Directive
    cancel_requested: bool


@dataclass(frozen=True, slots=True)
class Report:
    """How a report of an attempt was taken. `state` says where the step stands now."""

    append: Append | None
    disposition: Disposition
    state: StepState
    evidence_recorded: bool
    contradiction: bool
    cancel_requested: bool
    unknown: UnknownStep | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """The answer to a command that says nothing more. `append` is None when nothing was to be
    appended.
    """

    append: Append | None
    cancel_requested: bool = False


@dataclass(frozen=True, slots=True)
class EvidenceAttached:
    """The answer to attached facts."""

    append: Append | None
    contradiction: bool


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """The answer to a cancel request; `closed` when nobody drove the run and the ledger closed
    it.
    """

    append: Append | None
    closed: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """The answer to closing a run."""

    append: Append | None
    status: RunStatus


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The answer to a decision."""

    append: Append | None
    state: StepState


CommandAnswer: TypeAlias = (
    Opened
    | LeaseGranted
    | Planned
    | Started
    | Report
    | Appended
    | EvidenceAttached
    | CancelAsked
    | Closed
    | Reconciled
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A signed checkpoint. Verify it against a verifier key that you pinned from elsewhere."""

    note: str
    size: int
    verifier_key: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: its index and its exact bytes."""

    index: int
    entry: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Receipt:
    """C2SP tlog-proof text that needs no server to verify."""

    text: str
    index: int


@dataclass(frozen=True, slots=True)
class InclusionProof:
    """RFC 6962 audit path of an entry under the root of `tree_size`."""

    tree_size: int
    leaf_hash: bytes
    hashes: tuple[bytes, ...]
    root: bytes


@dataclass(frozen=True, slots=True)
class ConsistencyProof:
    """RFC 6962 proof that a smaller tree is a prefix of `new_size`."""

    new_size: int
    hashes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class DisclosedPayload:
    """A payload with the salt of its commitment."""

    payload: StoredPayload
    salt: bytes = field(repr=False)
    recorded_at: datetime | None


@dataclass(frozen=True, slots=True)
class RunChange:
    """A run after a change, with the steps that changed."""

    run: RunInfo
    steps: tuple[StepInfo, ...]
