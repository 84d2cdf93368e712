"""What appends wait while the ledger sweeps up after many dead holders at once.

    python -m bench.sweep [--leases N] [--rounds N] [--window-s S] [--quick] [--json] [--folder F]

In each round so many leases run out on a server that does not sweep; then, on the same log, a
window of unary calls on a server that sweeps them all from its start, and one when it has nothing
left to sweep. Ends with 1 unless every lease was expired and every write became unknown exactly
once.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import orjson

from bench.abandoned import ENTRIES_SWEPT, LEASE_S, abandon
from bench.append import folder_of
from bench.ground import Ground, Side
from bench.load import LoadProcess
from bench.orders import CallLoad, Taken
from tests.support.server_process import LedgerServer

CALLERS: Final = 16
NEVER: Final = {"LEDGER_SWEEP_MS": "3600000"}
_SWEPT_S_MAX: Final = 300.0
_QUICK_LEASES: Final = 300


@dataclass(slots=True)
class Swept:
    """One store's windows and counts."""

    name: str
    without: list[Taken] = field(default_factory=list)
    during: list[Taken] = field(default_factory=list)
    swept_s: list[float] = field(default_factory=list)
    still_due: list[int] = field(default_factory=list)
    acknowledged: int = 0
    leases: int = 0
    expired: int = 0
    unknown: int = 0

    @property
    def equal(self) -> bool:
        """Each lease expired once, each write unknown once."""
        return self.expired == self.unknown == self.leases


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the bench. 0: measured; 1: something was swept twice or not at all."""
    asked = _parser().parse_args(arguments)
    leases = _QUICK_LEASES if asked.quick else asked.leases
    rounds = 1 if asked.quick else asked.rounds
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load average"
        f" {os.getloadavg()[0]:.1f} before; fsync on.\n"
    )
    with folder_of(asked.folder) as folder, Ground(folder) as ground, LoadProcess() as load:
        found = []
        for make in (ground.sqlite, ground.postgres):
            side = make(settings=NEVER)
            swept = Swept(side.name)
            for number in range(rounds):
                sys.stderr.write(f"{side.name}: round {number + 1} of {rounds}\n")
                _round(side, swept, load, number, leases=leases, window_s=asked.window_s)
            side.server.close()
            swept.expired = side.count("lease.expired")
            swept.unknown = side.count("step.unknown")
            found.append(swept)
    for swept in found:
        print("\n".join(_lines(swept, leases=leases)))
    if asked.json:
        print(orjson.dumps([_finding(swept) for swept in found]).decode())
    return 0 if all(swept.equal for swept in found) else 1


def _round(
    side: Side, swept: Swept, load: LoadProcess, number: int, *, leases: int, window_s: float
) -> None:
    if not side.server.is_running:
        side.server.start()
    abandon(side.server, name=f"abandoned-{number}", runs=leases)
    swept.leases += leases
    time.sleep(LEASE_S + 1)
    side.server.stop()
    size = side.log_size()
    sweeping = side.server_with({})
    try:
        began_s = time.monotonic()
        sweeping.start()
        taken = load.take(_calls(sweeping, f"d{number}", window_s))
        swept.during.append(taken)
        swept.acknowledged += taken.acknowledged
        swept.still_due.append(side.due())
        while side.due():
            if time.monotonic() - began_s > _SWEPT_S_MAX:
                raise TimeoutError("the sweep does not come to an end")
            time.sleep(0.05)
        swept.swept_s.append(time.monotonic() - began_s)
        after = load.take(_calls(sweeping, f"w{number}", window_s))
        swept.without.append(after)
        swept.acknowledged += after.acknowledged
    finally:
        sweeping.close()
    if side.log_size() < size + leases * ENTRIES_SWEPT:
        raise RuntimeError("the log has fewer entries than were swept")


def _calls(server: LedgerServer, name: str, window_s: float) -> CallLoad:
    return CallLoad(
        address=server.address,
        token=server.token(),
        server_pid=server.pid,
        name=name,
        callers=CALLERS,
        commands=1,
        window_s=window_s,
    )


def _lines(swept: Swept, *, leases: int) -> list[str]:
    rows = [("without the sweep", swept.without), ("while it sweeps", swept.during)]
    ratio = median(
        during.p99_ms / without.p99_ms
        for during, without in zip(swept.during, swept.without, strict=True)
        if without.p99_ms
    )
    return [
        swept.name,
        f"  {f'unary, {CALLERS} in flight':<36} {'events/s':>9} {'p50 ms':>8} {'p99 ms':>8}",
        *(
            f"  {label:<36} {median(t.events_a_second for t in taken):>9,.0f}"
            f" {median(t.p50_ms for t in taken):>8.2f} {median(t.p99_ms for t in taken):>8.2f}"
            for label, taken in rows
        ),
        f"  p99 while it sweeps / p99 without {ratio:>22.2f}",
        (
            f"  {leases:,} leases swept in {median(swept.swept_s):.1f} s from the server's start;"
            f" {median(swept.still_due):,.0f} were left when the window closed"
        ),
        (
            f"  {swept.leases:,} left behind, {swept.expired:,} expired, {swept.unknown:,} became"
            f" unknown: {'each once' if swept.equal else 'NOT EACH ONCE'}"
        ),
        "",
    ]


def _finding(swept: Swept) -> dict[str, Any]:
    return {
        "store": swept.name,
        "p99_without_ms": [round(taken.p99_ms, 2) for taken in swept.without],
        "p99_during_ms": [round(taken.p99_ms, 2) for taken in swept.during],
        "swept_s": [round(each, 2) for each in swept.swept_s],
        "leases": swept.leases,
        "expired": swept.expired,
        "unknown": swept.unknown,
        "equal": swept.equal,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.sweep", description=__doc__)
    parser.add_argument("--leases", type=int, default=10_000, help="leases to sweep [10000]")
    parser.add_argument("--rounds", type=int, default=3, help="rounds to take medians of [3]")
    parser.add_argument("--window-s", type=float, default=3.0, help="seconds of a window [3]")
    parser.add_argument("--quick", action="store_true", help="one round of 300 leases")
    parser.add_argument("--json", action="store_true", help="one JSON value as the last line")
    parser.add_argument("--folder", type=Path, help="where the logs go, and stay")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


if __name__ == "__main__":
    sys.exit(main())
