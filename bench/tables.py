"""The printed tables: at most 100 columns, medians of rounds, ratios with their targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.orders import Taken


@dataclass(frozen=True, slots=True)
class Ratio:
    """Two rates of the same round, side by side; `target` is what it should reach."""

    name: str
    value: float
    target: float

    @property
    def line(self) -> str:
        """One printed line."""
        verdict = "reached" if self.value >= self.target else "below"
        return f"  {self.name:<52} {self.value:8.2f}   target {self.target:.2f}: {verdict}"


_HEAD = (
    f"  {'':<36} {'events/s':>9} {'calls/s':>8} {'p50 ms':>8} {'p99 ms':>8}"
    f" {'server us':>10} {'load CPU':>9}"
)


def side_table(name: str, taken: Mapping[str, Sequence[Taken]]) -> list[str]:
    """One store's rows: the median of each column over the rounds."""
    return [name, _HEAD, *(_row(label, rounds) for label, rounds in taken.items())]


def ratio(name: str, above: Sequence[Taken], below: Sequence[Taken], *, target: float) -> Ratio:
    """The median of the ratios of each round, so that what slows a whole round cancels out."""
    rates = [
        (a.events_a_second, b.events_a_second)
        for a, b in zip(above, below, strict=True)
        if b.events
    ]
    return Ratio(name, median(a / b for a, b in rates) if rates else 0.0, target)


def _row(label: str, rounds: Sequence[Taken]) -> str:
    cpu_us = median(taken.cpu_us_an_event for taken in rounds)
    share = median(taken.load_cpu_s / taken.window_s for taken in rounds)
    return (
        f"  {label:<36} {median(t.events_a_second for t in rounds):>9,.0f}"
        f" {median(t.calls / t.window_s for t in rounds):>8,.0f}"
        f" {median(t.p50_ms for t in rounds):>8.2f} {median(t.p99_ms for t in rounds):>8.2f}"
        f" {f'{cpu_us:.0f}' if cpu_us else '-':>10} {share:>8.0%}"
    )
