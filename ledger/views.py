"""What readers are answered: values made from one consistent snapshot of committed rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ledger.core.answers import UnknownStep
from ledger.core.run import Run
from ledger.core.step import Step
from ledger.core.vocabulary import StepState


class Availability(StrEnum):
    """Whether a stored payload can be handed out."""

    PRESENT = "PRESENT"
    NONE = "NONE"
    REDACTED = "REDACTED"
    FORBIDDEN = "FORBIDDEN"


@dataclass(frozen=True, slots=True)
class StoredContent:
    """A stored payload as it may be handed out; `redacted_index` is that of the erasing entry."""

    availability: Availability
    content: bytes = b""
    media_type: str = ""
    redacted_index: int = 0


NO_CONTENT = StoredContent(Availability.NONE)
FORBIDDEN_CONTENT = StoredContent(Availability.FORBIDDEN)


@dataclass(frozen=True, slots=True)
class RunView:
    """A run at one moment. `now_us` is ledger time as this replica reads it, for what remains of
    the lease; `run.steps` may be empty, `counts` speaks of all of them."""

    run: Run
    counts: Mapping[StepState, int]
    now_us: int


@dataclass(frozen=True, slots=True)
class RunPage:
    """Runs, newest activity first; `next_token` is empty at the end."""

    runs: tuple[RunView, ...]
    next_token: str


@dataclass(frozen=True, slots=True)
class StepsPage:
    """A run and some of its steps in the order they were planned."""

    view: RunView
    steps: tuple[Step, ...]
    next_token: str


@dataclass(frozen=True, slots=True)
class ResumeStep:
    """A step with what it takes to go on. `waiting_for` is empty where `ready`."""

    step: Step
    arguments: StoredContent
    result: StoredContent
    ready: bool
    waiting_for: str


@dataclass(frozen=True, slots=True)
class ResumePage:
    """A run's steps for a new process."""

    view: RunView
    steps: tuple[ResumeStep, ...]
    next_token: str


@dataclass(frozen=True, slots=True)
class UnknownPage:
    """Unsettled steps by effect class (writes that double first), then age."""

    unknowns: tuple[UnknownStep, ...]
    next_token: str


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry's exact bytes at its index."""

    index: int
    entry: bytes


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Entries in order without gaps, and the log's size in the same snapshot. `total` is the number
    of entries of the run where one was asked for, else the log's size."""

    entries: tuple[LogEntry, ...]
    size: int
    total: int


@dataclass(frozen=True, slots=True)
class InclusionProof:
    """A proof against the root of `tree_size`, all from that one size."""

    tree_size: int
    leaf: bytes
    hashes: tuple[bytes, ...]
    root: bytes


@dataclass(frozen=True, slots=True)
class ConsistencyProof:
    """That the old tree is a prefix of the one of `new_size`."""

    new_size: int
    hashes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class PublishedCheckpoint:
    """A signed note, its size, and the written form of the key that signed it."""

    note: bytes
    size: int
    verifier_key: str


@dataclass(frozen=True, slots=True)
class Disclosure:
    """A payload with the salt of its commitment; both empty unless it is PRESENT."""

    content: StoredContent
    salt: bytes
    recorded_us: int
