"""The Run aggregate: one agent execution, owner of one event stream (contract, section 4).

`Run` is an `eventsourcing` aggregate with explicit event classes (`run_events`). It holds what the
deciders read; nothing here decides. Its version counts from 1 as the library's do: the version in
an entry is one lower.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from eventsourcing.domain import BaseAggregate

from ledger.core.errors import InvariantViolation
from ledger.core.events import BODIES
from ledger.core.ids import RunId
from ledger.core.step import DEAD_MARGIN_US, Attempt, Step
from ledger.core.vocabulary import EffectClass, LeaseEnd, RunStatus, StepState

_UNNAMED: Final = "unnamed"


@dataclass(slots=True)
class Lease:
    """The newest lease of a run. Token 0: none was ever given.

    `expires_us` moves with renewals, which write no entry. `streak_from` is the lowest token from
    which every lease was given to the same process as this one.
    """

    token: int = 0
    holder: str = ""
    principal: str = ""
    process: str = ""
    expires_us: int = 0
    ended: LeaseEnd = LeaseEnd.NOT_ENDED
    streak_from: int = 0

    def is_live(self, now_us: int) -> bool:
        """Whether it gives the right to drive now."""
        return self.token > 0 and self.ended is LeaseEnd.NOT_ENDED and self.expires_us > now_us


class Run(BaseAggregate[str]):
    """One run, folded from its entries.

    `is_whole` says whether `steps` are all of its steps. A run that was filled from its row is not
    whole before they were loaded; a closed one is decided upon with only those that a command
    names (ADR 5). What asks for all steps raises `InvariantViolation` where they are not there.
    """

    def __init__(self) -> None:
        """Only `blank` makes one: a run begins with its `run.opened`."""

    run_id: RunId
    index: int
    leaf: bytes
    opened_by: str
    opened_us: int
    changed_us: int
    initiator: str
    parent: str
    ceiling: EffectClass
    labels: tuple[tuple[str, str], ...]
    status: RunStatus | None
    reason: str
    cancel_requested: bool
    lease: Lease
    drivers: set[str]
    steps: dict[str, Step]
    open_states: dict[StepState, set[str]]
    by_fingerprint: dict[tuple[str, bytes], list[str]]
    argument_keys: set[str]
    later_types: set[str]
    is_whole: bool
    stored_counts: dict[StepState, int]

    @classmethod
    def blank(cls, originator_id: str, timestamp: datetime) -> Run:
        """A run of version 0, before its first event."""
        run = cls.__new__(cls)
        run.__base_init__(originator_id, 0, timestamp)
        run.run_id = RunId(originator_id.partition("#")[2])
        run.index = -1
        run.leaf = b""
        run.opened_by = ""
        run.opened_us = run.changed_us = 0
        run.initiator = run.parent = run.reason = ""
        run.ceiling = EffectClass.NON_IDEMPOTENT_WRITE
        run.labels = ()
        run.status = None
        run.cancel_requested = False
        run.lease = Lease()
        run.drivers = set()
        run.steps = {}
        run.open_states = {state: set() for state in StepState}
        run.by_fingerprint = {}
        run.argument_keys = set()
        run.later_types = set()
        run.is_whole = True
        run.stored_counts = {}
        return run

    @property
    def not_understood(self) -> list[str]:
        """The types of its entries that this build does not know, so that it must not drive the
        run. Whoever records a type that release 0.1.0 did not have names it in the run's row, for
        the servers of an earlier release beside it read no entries."""
        return sorted(self.later_types - BODIES.keys())

    @property
    def is_closed(self) -> bool:
        """Whether `run.closed` ended driving."""
        return self.status is not None

    @property
    def counts(self) -> dict[StepState, int]:
        """How many steps are in each state that has any; also where its steps were not loaded."""
        if not self.is_whole:
            return {state: count for state in StepState if (count := self.stored_counts.get(state))}
        return {state: len(steps) for state, steps in self.open_states.items() if steps}

    def require_whole(self) -> None:
        """Raises `InvariantViolation` where some of its steps were not loaded."""
        if not self.is_whole:
            raise InvariantViolation("a run was taken for whole, but not all its steps were loaded")

    @property
    def open_steps(self) -> int:
        """How many steps are planned or started: what ending the run may have to write."""
        counts = self.counts
        return counts.get(StepState.PLANNED, 0) + counts.get(StepState.STARTED, 0)

    def in_state(self, state: StepState) -> list[Step]:
        """Its steps in a state, in the order they were planned. Costs only their number."""
        self.require_whole()
        return sorted(
            (self.steps[step] for step in self.open_states[state]), key=lambda s: s.ordinal
        )

    def add_step(self, step: Step) -> None:
        """Takes a step in, planned now or loaded from its row."""
        known = self.steps.get(step.id)
        if known is not None:
            self.open_states[known.state].discard(step.id)
        self.steps[step.id] = step
        self.open_states[step.state].add(step.id)
        if known is None and step.is_write:
            twins = self.by_fingerprint.setdefault((step.tool, step.arguments.fingerprint), [])
            twins.append(step.id)
            self.argument_keys.add(step.arguments.key_id)

    def move_step(self, step: Step, state: StepState) -> None:
        """Sets a step's state and keeps the sets by state, and the counts, right."""
        if not self.is_whole:
            self.stored_counts[step.state] -= 1
            self.stored_counts[state] = self.stored_counts.get(state, 0) + 1
        self.open_states[step.state].discard(step.id)
        self.open_states[state].add(step.id)
        step.state = state

    def token_counts_as_newest(self, attempt: Attempt) -> bool:
        """Whether no newer lease was given, or every newer one to the same process (rules, §2)."""
        lease = self.lease
        if attempt.token == lease.token:
            return True
        return attempt.process == lease.process and lease.streak_from <= attempt.token + 1

    def lease_of_attempt_ended(self, attempt: Attempt, now_us: int) -> bool:
        """Whether the attempt's lease is expired, released, broken or followed by a newer token."""
        return attempt.token != self.lease.token or not self.lease.is_live(now_us)

    def holder_is_dead(self, step: Step, now_us: int) -> bool:
        """Whether a STARTED step's holder is dead, exactly as rules section 3 says."""
        attempt = step.attempt
        if self.lease_of_attempt_ended(attempt, now_us):
            return not step.is_write or attempt.deadline_us <= now_us
        return attempt.deadline_us + DEAD_MARGIN_US <= now_us

    def without_steps(self) -> Run:
        """A copy for a reader, as the run stands now; later events do not reach it."""
        copy = Run.blank(self.id, self.created_on)
        copy.load(self.dump())
        copy.version, copy.index, copy.leaf = self.version, self.index, self.leaf
        copy.status, copy.changed_us = self.status, self.changed_us
        copy.lease = replace(self.lease)
        return copy

    def dump(self) -> list[Any]:
        """The run without its steps and the lease's expiry, as plain values, for its row."""
        lease = self.lease
        return [
            self.opened_by,
            self.opened_us,
            self.initiator,
            self.parent,
            self.ceiling.value,
            [list(label) for label in self.labels],
            self.reason,
            int(self.cancel_requested),
            sorted(self.drivers),
            lease.streak_from,
            sorted(self.later_types) or 0,
            {state.value: count for state, count in self.counts.items()},
        ]

    def load(self, values: list[Any]) -> None:
        """Takes what `dump` wrote; columns, steps and the lease are set by the loader, who says so
        once it has loaded them all."""
        self.is_whole = False
        self.opened_by, self.opened_us, self.initiator, self.parent = values[:4]
        self.ceiling = EffectClass(values[4])
        self.labels = tuple((name, value) for name, value in values[5])
        self.reason = values[6]
        self.cancel_requested = bool(values[7])
        self.drivers = set(values[8])
        self.lease.streak_from = values[9]
        # Release 0.1.0 wrote 0, or 1 for a type that it did not name. It reads any list as 1.
        self.later_types = set(values[10] or ()) if values[10] != 1 else {_UNNAMED}
        self.stored_counts = {StepState(state): count for state, count in values[11].items()}
