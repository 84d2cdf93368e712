"""Idempotency keys and tool bindings as their entries fold (contract, 3 and 5; rules, 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ledger.core.step import Arguments, Step
from ledger.core.vocabulary import EffectClass, StepState, Verdict

SETTLED: Final = frozenset({StepState.SUCCEEDED, StepState.FAILED, StepState.RECONCILED_EXECUTED})
"""Key states that answer a StartStep with REPLAY."""


@dataclass(slots=True)
class Claim:
    """Who holds an idempotency key, (tool, key) in a tenant, and how it is settled.

    `run` and `step` name the step that last started under the key; `arguments` are the first ones
    ever used with it, and stay. `superseded_by` is the (key, run, step) that took its place, once;
    `supersedes` is the key whose place it took itself, empty if none.
    `contradicted_by` are the (run, step) with an open contradiction, oldest first, and earlier
    owners that were then decided executed.
    """

    tool: str
    key: str
    run: str
    step: str
    state: StepState
    arguments: Arguments
    effect: EffectClass
    settled_index: int = -1
    settled_by: str = ""
    result_id: str = ""
    supersedable: bool = False
    superseded_by: tuple[str, str, str] | None = None
    contradicted_by: tuple[tuple[str, str], ...] = ()
    supersedes: str = ""

    def is_owned_by(self, *, run: str, step: str) -> bool:
        """Whether that step was the last to start under it."""
        return self.run == run and self.step == step

    def follow(self, step: Step) -> None:
        """Takes over how its owner stands now."""
        self.state = step.state
        self.settled_index = step.settled_index
        self.settled_by = step.settled_by
        self.result_id = step.result_id
        if step.state is StepState.FAILED:
            self.supersedable = True

    def follow_decision(self, step: Step, *, supersedable: bool) -> None:
        """Takes over a decision: the first, if not_executed, lets the key be superseded; it stays
        so if reaffirmed, ends with `executed`, and never begins later. What contradicts an earlier
        owner stays until that one is decided."""
        self.follow(step)
        self.settle_contradiction(run=self.run, step=self.step)
        if supersedable:
            self.supersedable = True
        elif step.decisions[-1].verdict is Verdict.EXECUTED:
            self.supersedable = False

    def contradict(self, *, run: str, step: str) -> None:
        """A report on that step contradicts how it was settled, or it was decided executed though
        another had started under the key since."""
        if (run, step) not in self.contradicted_by:
            self.contradicted_by += ((run, step),)

    def settle_contradiction(self, *, run: str, step: str) -> None:
        """A decision settled that step; what contradicts others stays."""
        self.contradicted_by = tuple(at for at in self.contradicted_by if at != (run, step))

    def dump(self) -> list[Any]:
        """What its row's columns do not hold, as plain values."""
        first = self.arguments
        values = [
            [first.payload_id, first.key_id, first.fingerprint.hex()],
            self.effect.value,
            self.settled_by,
            self.result_id,
            int(self.supersedable),
            list(self.superseded_by) if self.superseded_by else None,
            _dump_pairs(self.contradicted_by),
        ]
        # Last and only where there is one: rows written before it was kept lack it.
        return [*values, self.supersedes] if self.supersedes else values

    @classmethod
    def load(
        cls, *, tool: str, key: str, run: str, step: str, state: str, index: int, values: list[Any]
    ) -> Claim:
        """The claim of a row."""
        payload_id, key_id, fingerprint = values[0]
        return cls(
            tool=tool,
            key=key,
            run=run,
            step=step,
            state=StepState(state),
            arguments=Arguments(payload_id, key_id, bytes.fromhex(fingerprint)),
            effect=EffectClass(values[1]),
            settled_index=index,
            settled_by=values[2],
            result_id=values[3],
            supersedable=bool(values[4]),
            superseded_by=tuple(values[5]) if values[5] else None,
            contradicted_by=_load_pairs(values[6]),
            supersedes=values[7] if len(values) > 7 else "",
        )


def _dump_pairs(pairs: tuple[tuple[str, str], ...]) -> list[Any] | None:
    """A single one stands by itself, as in rows written before there could be several."""
    if len(pairs) < 2:
        return list(pairs[0]) if pairs else None
    return [list(pair) for pair in pairs]


def _load_pairs(values: list[Any] | None) -> tuple[tuple[str, str], ...]:
    if not values:
        return ()
    several = values if isinstance(values[0], list) else [values]
    return tuple((run, step) for run, step in several)


@dataclass(slots=True)
class Tool:
    """The classes bound to a tool, as far as the draft needs them.

    `strongest` is the strongest write class ever bound to any version, None before the first write.
    `loaded` are the versions whose rows were read, bound or not.
    """

    name: str
    strongest: EffectClass | None = None
    bound: dict[str, EffectClass] = field(default_factory=dict)
    allowed: dict[str, EffectClass] = field(default_factory=dict)
    index: dict[str, int] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)

    def take_in(self, other: Tool) -> None:
        """Takes over what was loaded of the same tool for other versions."""
        self.strongest = self.strongest or other.strongest
        for version in other.loaded - self.loaded:
            if version in other.bound:
                self.bound[version] = other.bound[version]
            if version in other.allowed:
                self.allowed[version] = other.allowed[version]
            if version in other.index:
                self.index[version] = other.index[version]
        self.loaded |= other.loaded

    def bind(self, *, version: str, effect: EffectClass, index: int) -> None:
        """`tool.declared`: the first declaration binds."""
        self.bound[version] = effect
        self.index[version] = index
        if effect.is_write and (self.strongest is None or effect.rank > self.strongest.rank):
            self.strongest = effect

    def allow(self, *, version: str, effect: EffectClass, index: int) -> None:
        """`tool.downgrade_allowed`."""
        self.allowed[version] = effect
        self.index.setdefault(version, index)
