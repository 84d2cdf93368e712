"""What can keep a command from being answered, other than the caller's own state.

A failure is never kept as an answer: the same request sent again is decided as if for the first
time, unless the earlier try turns out to have been committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import assert_never


class FailureKind(Enum):
    """Why there is no answer."""

    OVERLOADED = "OVERLOADED"
    """The queue has no room for this kind of command now."""
    DEADLINE_PASSED = "DEADLINE_PASSED"
    """The caller's deadline passed while the command was still queued."""
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    """The store cannot promise durability now; nothing of the command happened."""
    MAYBE_COMMITTED = "MAYBE_COMMITTED"
    """The commit was sent and nobody can say yet what came of it."""
    DRAINING = "DRAINING"
    """The server is stopping and takes nothing new."""
    HISTORY_REWOUND = "HISTORY_REWOUND"
    """The log is shorter than, or differs from, what was acknowledged before."""
    ACCESS_NOT_RECORDED = "ACCESS_NOT_RECORDED"
    """What has to stand in the access log before the answer could not be written there."""


def is_certain(kind: FailureKind) -> bool:
    """Whether nothing of the command was appended by this try."""
    match kind:
        case FailureKind.MAYBE_COMMITTED:
            return False
        case (
            FailureKind.OVERLOADED
            | FailureKind.DEADLINE_PASSED
            | FailureKind.STORE_UNAVAILABLE
            | FailureKind.DRAINING
            | FailureKind.HISTORY_REWOUND
            | FailureKind.ACCESS_NOT_RECORDED
        ):
            return True
    assert_never(kind)


@dataclass(frozen=True, slots=True)
class Failure:
    """No answer, and when it is worth asking again (0: now, or when the message says)."""

    kind: FailureKind
    retry_after_ms: int = 0
