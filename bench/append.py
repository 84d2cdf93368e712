"""How fast the ledger appends, beside the same database without it.

    python -m bench.append [--rounds N] [--window-s S] [--quick] [--growth [--fill-s S]] [--json]
                            [--folder F]

README.md in this folder says how to read the tables. Ends with 1 if what was acknowledged is not
what stands in the log; a missed target is printed and changes no status.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from bench.ground import Ground
from bench.growth import Sizes, growth, growth_lines
from bench.load import LoadProcess
from bench.tables import side_table
from bench.windows import Windows

_QUICK_S = 0.3
_QUICK_SIZES = Sizes(short=2_000, long=8_000, turns=1, window_s=0.3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the bench. 0: measured; 1: the log does not hold what was acknowledged."""
    asked = _parser().parse_args(arguments)
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load average"
        f" {os.getloadavg()[0]:.1f} before; fsync on.\n"
    )
    with folder_of(asked.folder) as folder, Ground(folder) as ground:
        if asked.growth:
            sizes = _QUICK_SIZES if asked.quick else Sizes(fill_s_max=asked.fill_s)
            return _grow(ground, sizes, json=asked.json)
        rounds = 1 if asked.quick else asked.rounds
        window_s = _QUICK_S if asked.quick else asked.window_s
        return _append(ground, rounds=rounds, window_s=window_s, json=asked.json)


def _append(ground: Ground, *, rounds: int, window_s: float, json: bool) -> int:
    both = [Windows(ground.sqlite(), window_s), Windows(ground.postgres(), window_s)]
    measure(both, rounds=rounds)
    found = [_finding(windows) for windows in both]
    print(
        f"Medians of {rounds} interleaved rounds, {window_s:g} s a window. `server us`: CPU of the"
        "\nserver's process for each event. `load CPU`: of one core, by the process that sends.\n"
    )
    for windows, finding in zip(both, found, strict=True):
        print("\n".join(_lines(windows, finding)))
    if json:
        print(orjson.dumps(found).decode())
    return 0 if all(finding["equal"] for finding in found) else 1


def _grow(ground: Ground, sizes: Sizes, *, json: bool) -> int:
    found = growth(ground, sizes)
    for grown in found:
        print("\n".join(growth_lines(grown, sizes)))
    if json:
        print(orjson.dumps(found).decode())
    return 0


def measure(both: Sequence[Windows], *, rounds: int) -> None:
    """Every window of every store, in turns, round by round."""
    with LoadProcess() as load:
        for windows in both:
            windows.warm(load)
        for number in range(rounds):
            sys.stderr.write(f"round {number + 1} of {rounds}\n")
            for turn in zip(*(windows.phases(number) for windows in both), strict=True):
                for windows, (label, order) in zip(both, turn, strict=True):
                    windows.take(load, label, order)


def _finding(windows: Windows) -> dict[str, Any]:
    count = windows.count()
    return {
        "store": windows.side.name,
        "rates": {
            label: [round(each.events_a_second, 1) for each in taken]
            for label, taken in windows.taken.items()
        },
        "ratios": {each.name: round(each.value, 3) for each in windows.ratios()},
        "entry_bytes": windows.entry_bytes,
        **count,
        "equal": count["acknowledged"] + count["own_entries"] == count["log_size"],
    }


def _lines(windows: Windows, finding: dict[str, Any]) -> list[str]:
    return [
        *side_table(windows.side.name, windows.taken),
        *(each.line for each in windows.ratios()),
        (
            f"  acknowledged {finding['acknowledged']:,} + {finding['own_entries']:,} of no run"
            f" {'=' if finding['equal'] else 'IS NOT'} {finding['log_size']:,} entries in the log;"
            f" the newest have {finding['entry_bytes']:,} bytes"
        ),
        "",
    ]


@contextmanager
def folder_of(given: Path | None) -> Iterator[Path]:
    """The given folder, which stays, or one that goes when it is left."""
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="ledger-bench-") as folder:
        yield Path(folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.append", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds to take medians of [5]")
    parser.add_argument("--window-s", type=float, default=3.0, help="seconds of a window [3]")
    parser.add_argument("--quick", action="store_true", help="one round of tiny windows")
    parser.add_argument("--growth", action="store_true", help="a long log against short ones")
    parser.add_argument(
        "--fill-s", type=float, default=110.0, help="most seconds for filling a long log [110]"
    )
    parser.add_argument("--json", action="store_true", help="one JSON value as the last line")
    parser.add_argument("--folder", type=Path, help="where the logs go, and stay")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


if __name__ == "__main__":
    sys.exit(main())
