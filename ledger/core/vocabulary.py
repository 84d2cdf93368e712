"""The closed word lists of the contract. Their values are what stands in entries."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class EffectClass(StrEnum):
    """What a tool may do to the outside world (contract, section 3), weakest first."""

    READ_ONLY = "READ_ONLY"
    PROPOSE = "PROPOSE"
    IDEMPOTENT_WRITE = "IDEMPOTENT_WRITE"
    NON_IDEMPOTENT_WRITE = "NON_IDEMPOTENT_WRITE"

    @property
    def rank(self) -> int:
        """Strength, 0 to 3."""
        return CLASS_RANK[self]

    @property
    def is_write(self) -> bool:
        """Whether it changes the outside world, so that it needs a key and a recorded end."""
        return CLASS_RANK[self] >= 2


CLASS_RANK: Final = {effect: rank for rank, effect in enumerate(EffectClass)}


class StepState(StrEnum):
    """Where a step stands (contract, section 4)."""

    PLANNED = "PLANNED"
    STARTED = "STARTED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    NO_EFFECT = "NO_EFFECT"
    UNKNOWN = "UNKNOWN"
    RECONCILED_EXECUTED = "RECONCILED_EXECUTED"
    RECONCILED_NOT_EXECUTED = "RECONCILED_NOT_EXECUTED"
    WITHDRAWN = "WITHDRAWN"


class Outcome(StrEnum):
    """What a runtime reports of an attempt."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    NO_EFFECT = "NO_EFFECT"


class Verdict(StrEnum):
    """What a decision says of an unknown step."""

    EXECUTED = "executed"
    NOT_EXECUTED = "not_executed"


class RunStatus(StrEnum):
    """How a run ended."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Disposition(StrEnum):
    """What a report of an attempt did."""

    RECORDED = "RECORDED"
    ALREADY_RECORDED = "ALREADY_RECORDED"
    LATE = "LATE"
    STALE_LEASE = "STALE_LEASE"


class Role(StrEnum):
    """What a principal may do (contract, section 12)."""

    DRIVE = "drive"
    READ = "read"
    RECONCILE = "reconcile"
    CONFIRM = "confirm"
    APPROVE = "approve"
    CANCEL = "cancel"
    AUDIT = "audit"
    EXPORT = "export"
    ADMIN = "admin"


class ActorKind(StrEnum):
    """What kind of principal acted."""

    RUNTIME = "runtime"
    HUMAN = "human"
    CONFIRMER = "confirmer"
    SYSTEM = "system"


class Auth(StrEnum):
    """How a principal was authenticated."""

    MTLS = "mtls"
    JWT = "jwt"
    EMBEDDED = "embedded"
    INTERNAL = "internal"


class LeaseEnd(StrEnum):
    """How a lease ended, where an entry says so."""

    NOT_ENDED = ""
    RELEASED = "released"
    EXPIRED = "expired"
    BROKEN = "broken"


SETTLED_WELL: Final = frozenset({StepState.SUCCEEDED, StepState.RECONCILED_EXECUTED})
RECONCILED: Final = frozenset({StepState.RECONCILED_EXECUTED, StepState.RECONCILED_NOT_EXECUTED})
REPORTED: Final = frozenset({StepState.SUCCEEDED, StepState.FAILED, StepState.NO_EFFECT})
