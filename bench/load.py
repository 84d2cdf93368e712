"""The load, in a process of its own, so that it shares no interpreter with what it measures.

python -m bench.load     reads orders from standard input, answers each on standard output
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.calls import Callers
from bench.orders import (
    CallLoad,
    Order,
    RowLoad,
    Taken,
    read_order,
    read_taken,
    write_order,
    write_taken,
)
from bench.rows import Writers

_ROOT = Path(__file__).resolve().parents[1]


class LoadEnded(RuntimeError):
    """The load process ended in the middle; why stands on standard error."""


class LoadProcess:
    """The parent's side."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.load"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._process.kill()
        self._process.communicate()

    def take(self, order: Order) -> Taken:
        """Has one window measured. Raises `LoadEnded`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(write_order(order))
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise LoadEnded(f"the load process ended while it worked on {type(order).__name__}")
        return read_taken(line)


def main() -> None:
    """Works off orders until there are no more."""
    with asyncio.Runner() as runner:
        for line in sys.stdin.buffer:
            taken = _take(runner, read_order(line))
            sys.stdout.buffer.write(write_taken(taken))
            sys.stdout.buffer.flush()


def _take(runner: asyncio.Runner, order: Order) -> Taken:
    gc.collect()
    gc.disable()
    try:
        match order:
            case CallLoad():
                return runner.run(Callers(order).drive())
            case RowLoad():
                return Writers(order).write()
    finally:
        gc.enable()


if __name__ == "__main__":
    main()
