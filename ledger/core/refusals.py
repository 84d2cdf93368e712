"""Refusals: a closed, numbered list. A refusal is about the caller's state, never about trouble.

Numbers and names are permanent and equal `ledger.v1.Reason` (a test holds them together).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import assert_never


class Reason(IntEnum):
    """Why a command was refused. The comment of each stands in `types.proto`."""

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


def is_transient(reason: Reason) -> bool:
    """Whether the identical request may succeed later, when time passes or others act."""
    match reason:
        case (
            Reason.LEASE_HELD
            | Reason.WAITING
            | Reason.TOO_EARLY
            | Reason.STEP_STARTED
            | Reason.STEP_UNKNOWN
            | Reason.CONTRADICTION
            | Reason.ATTEMPT_MAY_RUN
            | Reason.CLASS_DOWNGRADE
            | Reason.ROLE_MISSING
            | Reason.RUN_NOT_FOUND
            | Reason.STEP_NOT_PLANNED
            | Reason.NO_SUCH_ATTEMPT
            | Reason.NOT_SUPERSEDABLE
        ):
            return True
        case (
            Reason.RUN_EXISTS
            | Reason.RUN_CLOSED
            | Reason.STALE_LEASE
            | Reason.LEASE_EXPIRED
            | Reason.LEASE_OF_ANOTHER_PROCESS
            | Reason.STEP_WITHDRAWN
            | Reason.PLAN_MISMATCH
            | Reason.TOOL_VERSION_MISMATCH
            | Reason.CLASS_MISMATCH
            | Reason.ABOVE_CEILING
            | Reason.CANCELLED
            | Reason.KEY_CONFLICT
            | Reason.ARGUMENTS_ERASED
            | Reason.KEY_ABANDONED
            | Reason.SUPERSEDED_ALREADY
            | Reason.SUPERSEDE_REQUIRED
            | Reason.PREDECESSOR_ENDED
            | Reason.START_ALREADY_USED
            | Reason.REQUEST_REUSED
            | Reason.WRONG_STATE
            | Reason.SELF_RECONCILE
            | Reason.VERSION_MISMATCH
            | Reason.NOT_SUPERSEDING
            | Reason.ACQUIRE_ALREADY_USED
            | Reason.LIMIT_EXCEEDED
            | Reason.HISTORY_REWOUND
            | Reason.PROPOSAL_REQUIRED
            | Reason.OWN_PROPOSAL
        ):
            return False
    assert_never(reason)


@dataclass(frozen=True, slots=True)
class Refused:
    """The answer to a refused command. Nothing of the command was appended.

    `message` is for a person and holds no payload; `step`, `run` and `key` name what stands in the
    way; `details` are facts by name (times as entries write them).
    """

    reason: Reason
    message: str
    step: str = ""
    run: str = ""
    key: str = ""
    details: dict[str, str] = field(default_factory=dict)

    @property
    def may_succeed_later(self) -> bool:
        """Whether the identical request may succeed later."""
        return is_transient(self.reason)
