"""The contract's closed vocabularies, as typed enums whose numbers are those of the wire.

A number this version does not know decodes to the member `UNSPECIFIED`; nothing may be executed on
the strength of one.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class _Word(IntEnum):
    """An enum of the wire; unknown numbers become `UNSPECIFIED` (0)."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return cls(0) if isinstance(value, int) and value != 0 else None


class EffectClass(_Word):
    """What a tool may do to the outside world. A property of the tool's code."""

    UNSPECIFIED = 0
    READ_ONLY = 1
    PROPOSE = 2
    IDEMPOTENT_WRITE = 3
    NON_IDEMPOTENT_WRITE = 4

    @property
    def harmless(self) -> bool:
        """True for the two classes that change nothing outside, and so need no certainty."""
        return self in (EffectClass.READ_ONLY, EffectClass.PROPOSE)


class StepState(_Word):
    """Where a step stands."""

    UNSPECIFIED = 0
    PLANNED = 1
    STARTED = 2
    SUCCEEDED = 3
    FAILED = 4
    NO_EFFECT = 5
    UNKNOWN = 6
    RECONCILED_EXECUTED = 7
    RECONCILED_NOT_EXECUTED = 8
    WITHDRAWN = 9


class Outcome(_Word):
    """What a runtime reports of an attempt."""

    UNSPECIFIED = 0
    SUCCEEDED = 1
    FAILED = 2
    NO_EFFECT = 3


class RunStatus(_Word):
    """How a run ended; `UNSPECIFIED` while it is open."""

    UNSPECIFIED = 0
    COMPLETED = 1
    FAILED = 2
    CANCELLED = 3


class Availability(_Word):
    """Whether a stored payload was handed out, and if not why."""

    UNSPECIFIED = 0
    PRESENT = 1
    NONE = 2
    REDACTED = 3
    FORBIDDEN = 4


class Disposition(_Word):
    """What a report did."""

    UNSPECIFIED = 0
    RECORDED = 1
    ALREADY_RECORDED = 2
    LATE = 3
    STALE_LEASE = 4


class Verdict(_Word):
    """What a decision says."""

    UNSPECIFIED = 0
    EXECUTED = 1
    NOT_EXECUTED = 2


class Durability(_Word):
    """Whether an error leaves the request's effect on the log certain."""

    UNSPECIFIED = 0
    NOT_COMMITTED = 1
    MAYBE_COMMITTED = 2


class Reason(_Word):
    """Why a command was refused. Numbers are permanent."""

    UNSPECIFIED = 0
    RUN_EXISTS = 1
    RUN_CLOSED = 2
    STALE_LEASE = 3
    LEASE_EXPIRED = 4
    LEASE_OF_ANOTHER_PROCESS = 5
    LEASE_HELD = 6
    STEP_NOT_PLANNED = 7
    STEP_WITHDRAWN = 8
    PLAN_MISMATCH = 9
    TOOL_VERSION_MISMATCH = 10
    CLASS_MISMATCH = 11
    CLASS_DOWNGRADE = 12
    ABOVE_CEILING = 13
    CANCELLED = 14
    KEY_CONFLICT = 15
    ARGUMENTS_ERASED = 16
    KEY_ABANDONED = 17
    SUPERSEDED_ALREADY = 18
    NOT_SUPERSEDABLE = 19
    SUPERSEDE_REQUIRED = 20
    CONTRADICTION = 21
    WAITING = 22
    PREDECESSOR_ENDED = 23
    START_ALREADY_USED = 24
    REQUEST_REUSED = 25
    NO_SUCH_ATTEMPT = 26
    WRONG_STATE = 27
    STEP_STARTED = 28
    STEP_UNKNOWN = 29
    SELF_RECONCILE = 30
    TOO_EARLY = 31
    VERSION_MISMATCH = 32
    NOT_SUPERSEDING = 33
    ROLE_MISSING = 34
    RUN_NOT_FOUND = 35
    ATTEMPT_MAY_RUN = 36
    ACQUIRE_ALREADY_USED = 37
    LIMIT_EXCEEDED = 38
    HISTORY_REWOUND = 39
    PROPOSAL_REQUIRED = 40
    OWN_PROPOSAL = 41

    @classmethod
    def named(cls, name: str) -> Reason:
        """The reason of that name without prefix; `UNSPECIFIED` for one this version does not
        know.
        """
        return cls.__members__.get(name, cls.UNSPECIFIED)


class LogName(_Word):
    """Which of a tenant's logs; `UNSPECIFIED` is the one that runs are recorded in."""

    UNSPECIFIED = 0
    RUNS = 1
    ACCESS = 2


class ReadPurpose(_Word):
    """What entries are read for. Exports and verifications are recorded in the access log."""

    UNSPECIFIED = 0
    EXPORT = 1
    VERIFY = 2
