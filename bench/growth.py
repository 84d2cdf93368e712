"""Whether a long log is as fast as a short one, and what memory the server takes at both.

One server's log is filled. Then, in turns, a window on it and a window on a new server whose log is
short: what slows the machine for a while slows both.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final

import psutil

from bench.ground import Ground, Side
from bench.load import LoadProcess
from bench.orders import CallLoad, Taken
from bench.tables import Ratio

COMMANDS: Final = 100
FILLING_COMMANDS: Final = 1_000
"""A message that fills a log may be as long as the server takes: nothing is measured then."""
SUBMITTERS: Final = 2
TARGET: Final = 0.8
_FILL_WINDOW_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """Entries of the short and the long log, turns, seconds of a window and for filling one log."""

    short: int = 20_000
    long: int = 300_000
    turns: int = 3
    window_s: float = 3.0
    fill_s_max: float = 110.0


@dataclass(frozen=True, slots=True)
class Grown:
    """One store's finding. Memory in MiB, of the same server process at both sizes."""

    name: str
    reached: int
    short_rate: float
    long_rate: float
    ratio: Ratio
    rss_short_mib: float
    rss_long_mib: float


class Log:
    """A server whose log is filled with Submit messages."""

    def __init__(self, side: Side, load: LoadProcess) -> None:
        self.side = side
        self.size = 0
        self._load = load
        self._windows = 0

    def window(self, window_s: float, *, commands: int = COMMANDS, entries_max: int = 0) -> Taken:
        """Appends for so long, or until about `entries_max` entries more."""
        server = self.side.server
        self._windows += 1
        taken = self._load.take(
            CallLoad(
                address=server.address,
                token=server.token(),
                server_pid=server.pid,
                name=f"g{self._windows}",
                callers=SUBMITTERS,
                commands=commands,
                window_s=window_s,
                entries_max=entries_max,
            )
        )
        self.size += taken.acknowledged
        return taken

    def fill(self, size: int, *, until_s: float) -> None:
        """Appends until the log has about `size` entries, or the time is over."""
        while self.size < size and time.monotonic() < until_s:
            self.window(_FILL_WINDOW_S, commands=FILLING_COMMANDS, entries_max=size - self.size)

    def rss_mib(self) -> float:
        """Resident memory of the server's process now."""
        return float(psutil.Process(self.side.server.pid).memory_info().rss) / 2**20


def grow(make: Callable[[str], Side], name: str, load: LoadProcess, sizes: Sizes) -> Grown:
    """Fills one log, then measures it and new short ones in turns."""
    until_s = time.monotonic() + sizes.fill_s_max
    long = Log(make(f"{name}-long"), load)
    long.fill(sizes.short, until_s=until_s)
    rss_short_mib = long.rss_mib()
    long.fill(sizes.long, until_s=until_s)
    reached, rss_long_mib = long.size, long.rss_mib()
    rates: list[tuple[float, float]] = []
    for turn in range(sizes.turns):
        sys.stderr.write(f"{long.side.name}: turn {turn + 1} of {sizes.turns}\n")
        short = Log(make(f"{name}-short-{turn}"), load)
        short.fill(sizes.short, until_s=time.monotonic() + sizes.fill_s_max)
        pair = [log.window(sizes.window_s).events_a_second for log in (short, long)]
        rates.append((pair[0], pair[1]))
        short.side.server.stop()
    label = f"rate at {reached:,} entries / rate at {sizes.short:,}"
    return Grown(
        name=long.side.name,
        reached=reached,
        short_rate=median(short for short, _ in rates),
        long_rate=median(long for _, long in rates),
        ratio=Ratio(label, median(long / short for short, long in rates), TARGET),
        rss_short_mib=rss_short_mib,
        rss_long_mib=rss_long_mib,
    )


def growth(ground: Ground, sizes: Sizes) -> list[Grown]:
    """Both stores, one after the other."""
    with LoadProcess() as load:
        return [
            grow(ground.sqlite, "sqlite", load, sizes),
            grow(ground.postgres, "postgres", load, sizes),
        ]


def growth_lines(grown: Grown, sizes: Sizes) -> list[str]:
    """One store's printed lines."""
    return [
        grown.name,
        f"  {'':<36} {'events/s':>9} {'server MiB':>11}",
        (
            f"  {f'at {sizes.short:,} entries':<36} {grown.short_rate:>9,.0f}"
            f" {grown.rss_short_mib:>11,.0f}"
        ),
        (
            f"  {f'at {grown.reached:,} entries':<36} {grown.long_rate:>9,.0f}"
            f" {grown.rss_long_mib:>11,.0f}"
        ),
        grown.ratio.line,
        *(
            [f"  {sizes.long:,} entries were not reached in {sizes.fill_s_max:g} s"]
            if grown.reached < sizes.long
            else []
        ),
        "",
    ]
