"""The real server in children that can be told to die, or to wait, at one statement of an append.

    python -m tests.crash.dying_server

Reads orders from standard input, one JSON object a line, and answers each with one line. The
modules are loaded once and every server is a fork that runs `python -m server`'s own code, because
a death at every statement needs hundreds of starts. Ends with its input and takes its children
along.

A server looks for the file `LEDGER_TRIAL_FOLDER/order` at each statement of a writing thread. The
statement that finds it is the first; what it says (`order_at`) is done at the statement of that
number; an order that names a kind counts only statements of that kind. Every statement under an
order is listed in the file `seen`. `LEDGER_TRIAL_FOLDER/shift` holds the seconds that the store's
clock is ahead; it is read whenever the clock is.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, Final, NoReturn

from ledger.store import opening
from ledger.store.interface import Store
from ledger.store.settings import Moment, StoreSettings
from tests.support.forked_server import fork_servers, run_server, settle_in

FOLDER_VARIABLE: Final = "LEDGER_TRIAL_FOLDER"
_WAIT_S: Final = 60.0


class Trial:
    """What happens at the statements of the writing threads."""

    def __init__(self, folder: Path) -> None:
        self._order = folder / "order"
        self._seen = folder / "seen"
        self._reached = folder / "reached"
        self._go_on = folder / "go-on"
        self._at = 0
        self._moment = ""
        self._act = ""
        self._kind = ""
        self._thread = ""
        self._count = 0

    def observe(self, moment: Moment, kind: str) -> None:
        """Called by the store around every statement."""
        thread = threading.current_thread().name
        if not thread.startswith(("sequencer-", "access-")):
            return
        self._take_order()
        if not self._act or not thread.startswith(self._thread):
            return
        counts = self._kind in ("", kind)
        if moment == "before" and counts:
            self._count += 1
        with self._seen.open("a", encoding="ascii") as seen:
            seen.write(f"{self._count} {moment} {kind}\n")
        if counts and (self._count, moment) == (self._at, self._moment):
            self._do()

    def _take_order(self) -> None:
        try:
            words = self._order.read_text(encoding="ascii").split()
        except FileNotFoundError:
            return
        self._act, self._at, self._moment = words[0], int(words[1]), words[2]
        named = [word for word in words[3:] if word.endswith("-")]
        kinds = [word for word in words[3:] if word not in named]
        self._thread = named[0] if named else "sequencer-"
        self._kind = kinds[0] if kinds else ""
        self._count = 0
        self._order.unlink()

    def _do(self) -> None:
        act, self._act = self._act, ""
        if act == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        self._reached.touch()
        deadline = time.monotonic() + _WAIT_S
        while not self._go_on.exists() and time.monotonic() < deadline:
            time.sleep(0.005)  # pause: between looks for the word to go on
        self._go_on.unlink()


def shift_us(folder: Path) -> int:
    """How far the store's clock is ahead, in microseconds."""
    try:
        return int(folder.joinpath("shift").read_text(encoding="ascii")) * 1_000_000
    except FileNotFoundError:
        return 0


def become_server(order: dict[str, Any]) -> NoReturn:
    """Turns this forked child into the server that `order` describes."""
    settle_in(order)
    folder = Path(os.environ[FOLDER_VARIABLE])
    trial = Trial(folder)
    open_as_ever = opening.open_store

    def open_observed(url: str, settings: StoreSettings | None = None) -> Store:
        assert settings is None, "the composition root has settings of its own to merge with"
        made = StoreSettings(observe=trial.observe, clock_shift_us=lambda: shift_us(folder))
        return open_as_ever(url, made)

    opening.open_store = open_observed
    run_server()


if __name__ == "__main__":
    fork_servers(become_server)
