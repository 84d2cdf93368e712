"""Answers to commands, as flat values that can be kept and repeated word for word.

An answer that appended something is stored with its request id (without payloads) and repeated for
ever; where an answer speaks of the present (a lease's remaining time, a step's result) it names ids
and the reader fills it in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from operator import attrgetter
from typing import Any, Final

import orjson

from ledger.core.refusals import Refused
from ledger.core.run import Run
from ledger.core.value import value


@value()
class RunOpened:
    """The run exists as asked."""

    run: str


@value()
class LeaseGranted:
    """The caller holds the lease until `expires_us` (ledger time)."""

    token: int
    holder: str
    principal: str
    expires_us: int
    now_us: int
    cancel_requested: bool


@value()
class LeaseEnded:
    """The lease was released or broken, or had ended before."""


@value()
class Planned:
    """The plan stands. `keys` in the order of the request, empty where a class takes none."""

    keys: tuple[str, ...]
    cancel_requested: bool


@value()
class Execute:
    """Run the tool. `deadline_us` and `now_us` are ledger time."""

    token: int
    attempt: int
    deadline_us: int
    now_us: int
    key: str
    replayed: bool
    cancel_requested: bool


@value()
class Replay:
    """Settled before: do not run the tool. The result is that of `payload_id`, empty if none."""

    outcome: str
    state: str
    run: str
    step: str
    settled_index: int
    payload_id: str
    settled_by: str
    cancel_requested: bool


@value()
class Held:
    """Another live holder is in it."""

    run: str
    step: str
    attempt: int
    token: int
    holder: str
    until_us: int
    cancel_requested: bool


@value()
class StandingProposal:
    """What one person proposes about a step, for a second one to confirm by its index."""

    index: int
    verdict: str
    reason_code: str
    proposer: str
    proposed_us: int


@value()
class UnknownStep:
    """A step that waits for a decision, with the very ids that Reconcile takes.

    `decision_index` is the standing decision's, which a superseding one names; -1 where none is.
    """

    run: str
    step: str
    expected_version: int
    attempt: int
    tool: str
    tool_version: str
    effect: str
    key: str
    cause: str
    since_us: int
    not_executed_from_us: int
    state: str
    contradiction: bool
    decision_index: int = -1
    proposals: tuple[StandingProposal, ...] = ()


@value()
class OutcomeUnknown:
    """A dead attempt holds the key: stop and ask."""

    unknown: UnknownStep
    cancel_requested: bool


@value()
class StartRefused:
    """Refused, said as a directive."""

    refused: Refused
    cancel_requested: bool


@value()
class Completed:
    """How a report was taken."""

    disposition: str
    state: str
    evidence_recorded: bool
    contradiction: bool
    cancel_requested: bool


@value()
class Marked:
    """How a report of an unknown outcome was taken. `unknown` where the step is unknown."""

    disposition: str
    state: str
    unknown: UnknownStep | None
    cancel_requested: bool


@value()
class Withdrawn:
    """The step is withdrawn."""

    cancel_requested: bool


@value()
class EvidenceAttached:
    """The facts were attached."""

    contradiction: bool


@value()
class CancelRequested:
    """The run was asked to stop; `closed` if the ledger closed it for want of a driver."""

    closed: bool


@value()
class RunClosed:
    """The run is closed."""

    status: str


@value()
class Reconciled:
    """The step is settled."""

    state: str


@value()
class DecisionProposed:
    """The proposal stands, under its entry's index, until something settles or changes the step."""


@value()
class DowngradeAllowed:
    """The permission is recorded."""


@value()
class Swept:
    """What was due on the run was done."""


Answer = (
    RunOpened
    | LeaseGranted
    | LeaseEnded
    | Planned
    | Execute
    | Replay
    | Held
    | OutcomeUnknown
    | StartRefused
    | Completed
    | Marked
    | Withdrawn
    | EvidenceAttached
    | CancelRequested
    | RunClosed
    | Reconciled
    | DecisionProposed
    | DowngradeAllowed
    | Swept
    | Refused
)

_KEPT: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        RunOpened,
        LeaseGranted,
        LeaseEnded,
        Planned,
        Execute,
        Completed,
        Marked,
        Withdrawn,
        EvidenceAttached,
        CancelRequested,
        RunClosed,
        Reconciled,
        DecisionProposed,
        DowngradeAllowed,
    )
}


def _reader(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """What takes the fields out of an answer of a kind, in order."""
    names = [each.name for each in fields(kind)]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda answer: tuple(getattr(answer, name) for name in names)


_READERS: Final = {kind: _reader(kind) for kind in _KEPT.values()}


def keep_answer(answer: Answer) -> bytes:
    """The stored form of an answer that appended something. Not normative and never hashed."""
    kind = type(answer)
    values = _READERS[kind](answer)
    if kind is Marked:
        values = tuple(dump_unknown(v) if isinstance(v, UnknownStep) else v for v in values)
    return orjson.dumps((kind.__name__, values))


def dump_unknown(unknown: UnknownStep) -> dict[str, Any]:
    """The stored form. Proposals only where there are any: what was stored before lacks them."""
    values = asdict(unknown)
    if not unknown.proposals:
        del values["proposals"]
    return values


def load_unknown(values: dict[str, Any]) -> UnknownStep:
    """The step that `dump_unknown` stored."""
    proposals = tuple(StandingProposal(**each) for each in values.pop("proposals", ()))
    return UnknownStep(**values, proposals=proposals)


def kept_answer(stored: bytes) -> Answer:
    """The answer that `keep_answer` stored."""
    name, values = orjson.loads(stored)
    if name == "Marked" and values[2] is not None:
        values[2] = load_unknown(values[2])
    if name == "Planned":
        values[0] = tuple(values[0])
    answer: Answer = _KEPT[name](*values)
    return answer


@value()
class Appended:
    """Where a command's events stand: its last entry, and a tree size that includes it."""

    index: int
    leaf: bytes
    tree_size: int
    entries: int
    recorded_us: int


@value()
class Answered:
    """An answer with where it was appended; `append` is None when nothing was.

    `opened` is the run of a `RunOpened` as it stood when that was decided, without its steps;
    `now_us` the ledger time of then.
    """

    answer: Answer
    append: Appended | None = None
    opened: Run | None = None
    now_us: int = 0
