"""The demo's account: what the shop counted, what the ledger says, and whether the two agree."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from ledger.cli.demo.actions import ActionId
from ledger.cli.demo.confirming import Settled
from ledger.cli.demo.windows import Window
from ledger.client import Verdict

MICROSECONDS = 1_000_000
PAUSE_US = 250_000
"""A gap between two entries longer than this is waiting, not appending."""


@dataclass(frozen=True, slots=True)
class Effects:
    """How many effects happened as often as they were meant to, too rarely, and too often."""

    once: int
    zero: int
    doubled: int

    @classmethod
    def of(cls, *, wanted: Counter[ActionId], happened: Counter[ActionId]) -> Effects:
        """Count. What happened without being asked for counts as doubled."""
        zero = wanted - happened
        doubled = happened - wanted
        spoiled = sum(min(wanted[action], extra) for action, extra in doubled.items())
        return cls(wanted.total() - zero.total() - spoiled, zero.total(), doubled.total())


@dataclass(frozen=True, slots=True)
class Proof:
    """What the offline verification said. `verdict` is its word, `said` its whole line."""

    verdict: str
    said: str
    size: int
    held: int
    findings: tuple[str, ...] = ()


@dataclass(slots=True)
class Account:
    """Everything the demo ends with."""

    actions: int
    effects: Effects = field(default_factory=lambda: Effects(0, 0, 0))
    kills: Counter[Window] = field(default_factory=Counter)
    starts: int = 0
    settled: list[Settled] = field(default_factory=list)
    asked_again: Counter[str] = field(default_factory=Counter)
    lost: list[Settled] = field(default_factory=list)
    open_runs: int = 0
    appends_per_second: float = 0.0
    proof: Proof | None = None

    @property
    def executed(self) -> int:
        """Unknowns that were settled as executed."""
        return sum(1 for each in self.settled if each.verdict is Verdict.EXECUTED)

    @property
    def good(self) -> bool:
        """No effect happened twice or never, no executed one is missing, every run is closed, and
        the log verifies.
        """
        return (
            self.effects.doubled == 0
            and self.effects.zero == 0
            and not self.lost
            and self.open_runs == 0
            and self.proof is not None
            and self.proof.verdict in ("VERIFIED", "VERIFIED_REDACTED")
        )

    def as_json(self) -> dict[str, object]:
        """The last line of `ledger demo --json`."""
        return {
            "actions": self.actions,
            "effects_once": self.effects.once,
            "effects_zero": self.effects.zero,
            "effects_doubled": self.effects.doubled,
            "kills": self.kills.total(),
            "unknowns_settled": len(self.settled),
            "appends_per_second": round(self.appends_per_second, 1),
            "verdict": self.proof.verdict if self.proof else "UNVERIFIABLE",
        }


def appends_per_second(times_us: list[int]) -> float:
    """Entries a second while there was something to append: pauses are left out."""
    gaps = [after - before for before, after in pairwise(times_us)]
    busy = [gap for gap in gaps if gap <= PAUSE_US]
    return len(busy) * MICROSECONDS / sum(busy) if sum(busy) else 0.0
