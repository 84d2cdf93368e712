"""A step as its entries fold: state, attempts, and what it takes to compare and to decide.

Values only: what changes them are the events (`run_events`), what may change them is decided in
`decide`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ledger.core.vocabulary import RECONCILED, REPORTED, EffectClass, Outcome, StepState, Verdict

DEAD_MARGIN_US: Final = 10_000_000
"""How long past its deadline an attempt counts as dead whatever its lease (rules, section 3)."""


@dataclass(slots=True)
class Arguments:
    """Where a step's arguments are sealed, and a keyed digest to compare them by.

    `fingerprint` is an HMAC under the payload's own data key: it tells nothing once that key is
    destroyed, and equals another only under the same key.
    """

    payload_id: str
    key_id: str
    fingerprint: bytes = b""


@dataclass(slots=True)
class Attempt:
    """One start of a step. `settled` is its reported outcome, or the decision's word."""

    number: int
    token: int
    process: str
    principal: str
    started_index: int
    deadline_us: int
    settled: str = ""

    @property
    def is_settled(self) -> bool:
        """Whether a report or a decision said what came of it."""
        return bool(self.settled)


@dataclass(slots=True)
class Decision:
    """A decision on a step: its entry's index, its verdict, who made it, and who had proposed
    the same where two people decide."""

    index: int
    verdict: Verdict
    decider: str
    proposers: tuple[str, ...] = ()

    def is_of(self, principal: str) -> bool:
        """Whether that principal made it, or proposed what it confirmed."""
        return principal == self.decider or principal in self.proposers


@dataclass(slots=True)
class Proposal:
    """What one person proposes, for a second one to confirm."""

    index: int
    verdict: Verdict
    proposer: str
    reason_code: str
    supersedes: int
    proposed_us: int


@dataclass(slots=True)
class Step:
    """One intended action.

    `version` is the index of the last entry that changed it or attached an outcome: Reconcile's
    expected_version. `changed_version` is the run version of the last entry that touched it.
    `inconclusive` are the (attempt, kind) of which a confirmer could say nothing definite;
    `proposals` those that stand, the newest of each person.
    """

    id: str
    ordinal: int
    tool: str
    tool_version: str
    effect: EffectClass
    key: str
    after: tuple[str, ...]
    supersedes: str
    arguments: Arguments
    state: StepState = StepState.PLANNED
    version: int = 0
    changed_version: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    cause: str = ""
    since_us: int = 0
    result_id: str = ""
    settled_index: int = -1
    settled_by: str = ""
    decisions: list[Decision] = field(default_factory=list)
    contradiction: bool = False
    inconclusive: list[tuple[int, str]] = field(default_factory=list)
    proposals: list[Proposal] = field(default_factory=list)

    @property
    def is_write(self) -> bool:
        """Whether its effect class changes the outside world."""
        return self.effect.is_write

    @property
    def attempt(self) -> Attempt:
        """The newest attempt. Only for a step that was started."""
        return self.attempts[-1]

    @property
    def latest_unsettled_deadline_us(self) -> int:
        """The latest operation deadline of the attempts that nobody reported on, 0 if none."""
        return max((a.deadline_us for a in self.attempts if not a.is_settled), default=0)

    @property
    def counts_as_unknown(self) -> bool:
        """Whether it is UNKNOWN, or NO_EFFECT while a success contradicts it (rules, §3)."""
        return self.state is StepState.UNKNOWN or (
            self.state is StepState.NO_EFFECT and self.contradiction
        )

    @property
    def awaits_decision(self) -> bool:
        """Whether it is UNKNOWN, or contradicted where a report had settled it (ADR 6)."""
        return self.state is StepState.UNKNOWN or (self.contradiction and self.state in REPORTED)

    @property
    def decision_index(self) -> int:
        """The index of the newest decision, which is the one that stands; -1 where none is."""
        return self.decisions[-1].index if self.decisions else -1

    @property
    def is_listed(self) -> bool:
        """Whether it stands in the list of unknowns."""
        return self.state is StepState.UNKNOWN or self.contradiction

    @property
    def is_reconciled(self) -> bool:
        """Whether a decision settled it."""
        return self.state in RECONCILED

    def dump(self) -> list[Any]:
        """The step as plain values, for its row."""
        values = [
            self.id,
            self.ordinal,
            self.tool,
            self.tool_version,
            self.effect.value,
            self.key,
            list(self.after),
            self.supersedes,
            [self.arguments.payload_id, self.arguments.key_id, self.arguments.fingerprint.hex()],
            self.state.value,
            self.version,
            self.changed_version,
            [
                [
                    a.number,
                    a.token,
                    a.process,
                    a.principal,
                    a.started_index,
                    a.deadline_us,
                    a.settled,
                ]
                for a in self.attempts
            ],
            self.cause,
            self.since_us,
            self.result_id,
            self.settled_index,
            self.settled_by,
            [
                [d.index, d.verdict.value, d.decider, *([list(d.proposers)] if d.proposers else [])]
                for d in self.decisions
            ],
            int(self.contradiction),
            [[attempt, kind] for attempt, kind in self.inconclusive],
        ]
        if self.proposals:
            # Last and only where there are any: rows written before there were any lack them.
            values.append(
                [
                    [
                        p.index,
                        p.verdict.value,
                        p.proposer,
                        p.reason_code,
                        p.supersedes,
                        p.proposed_us,
                    ]
                    for p in self.proposals
                ]
            )
        return values

    @classmethod
    def load(cls, values: list[Any]) -> Step:
        """The step that `dump` wrote."""
        arguments = values[8]
        step = cls(
            id=values[0],
            ordinal=values[1],
            tool=values[2],
            tool_version=values[3],
            effect=EffectClass(values[4]),
            key=values[5],
            after=tuple(values[6]),
            supersedes=values[7],
            arguments=Arguments(arguments[0], arguments[1], bytes.fromhex(arguments[2])),
            state=StepState(values[9]),
            attempts=[Attempt(*attempt) for attempt in values[12]],
            decisions=[
                Decision(d[0], Verdict(d[1]), d[2], tuple(d[3]) if len(d) > 3 else ())
                for d in values[18]
            ],
            contradiction=bool(values[19]),
            inconclusive=[(attempt, kind) for attempt, kind in values[20]],
            proposals=[Proposal(p[0], Verdict(p[1]), *p[2:]) for p in (values[21:] or [()])[0]],
        )
        step.version, step.changed_version = values[10:12]
        step.cause, step.since_us, step.result_id = values[13:16]
        step.settled_index, step.settled_by = values[16:18]
        return step


def state_after(outcome: Outcome, *, earlier_unsettled: bool) -> StepState:
    """Where a started step stands after a report (rules, section 3)."""
    if outcome is Outcome.SUCCEEDED:
        return StepState.SUCCEEDED
    if earlier_unsettled:
        return StepState.UNKNOWN
    return StepState.FAILED if outcome is Outcome.FAILED else StepState.NO_EFFECT
