"""`ledger confirm`."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import Annotated, Final, assert_never

import typer

from ledger.cli import options
from ledger.cli.rows import Column
from ledger.cli.screen import Screen, local, stamp, styled, table
from ledger.cli.stops import Code, Stop
from ledger.client import (
    Confirmer,
    Confirming,
    LedgerUnavailable,
    LeftForPerson,
    Settled,
    UnknownStep,
    Verdict,
    Waits,
)

_ROLE: Final = "confirmer"
_ASKING: Final = "The confirmer"

Found = Settled | Waits | LeftForPerson

Module = Annotated[
    str,
    typer.Option(
        "--module",
        metavar="PKG.MOD:NAME",
        help="The confirmer: a plain or async function of one unknown step.",
        rich_help_panel=_ASKING,
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="SECONDS", min=0.01, help="For one question.", rich_help_panel=_ASKING
    ),
]
Concurrency = Annotated[
    int,
    typer.Option("--concurrency", min=1, help="Questions at once.", rich_help_panel=_ASKING),
]
Every = Annotated[
    float,
    typer.Option(
        "--every", metavar="SECONDS", min=0.1, help="Between rounds.", rich_help_panel=_ASKING
    ),
]
Once = Annotated[
    bool,
    typer.Option("--once", help="One round, an account, and end.", rich_help_panel=_ASKING),
]


def confirm(
    module: Module,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Only this run.")] = "",
    once: Once = False,
    timeout: Timeout = 30.0,
    concurrency: Concurrency = 4,
    every: Every = 10.0,
    server: options.Server = options.DEFAULT_SERVER,
    folder: options.Folder = options.DEFAULT_FOLDER,
    token_file: options.TokenFile = None,
    role: options.Who = _ROLE,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Ask a system of record about every unknown step, and settle what it is sure of.

    Your confirmer is given the step with its key, and answers Executed(...), NotExecuted(...) or
    CannotTell(reason) of ledger.client. Only a yes or a no settles. An error, a question that takes
    too long and "cannot tell" are kept as evidence and leave the step for a person. A "no" counts
    only once the call can land no more; until then the step waits and is asked about again.

    Goes on until Ctrl-C or SIGTERM, unless --once. Exit codes: 0 all is settled, or it was told to
    stop; 3 with --once: something waits or is left for a person; 2 there is no such confirmer;
    7 the ledger does not answer.

    [bold]Examples[/bold]

      ledger confirm --module examples.payments.confirmer:confirmer --once
      ledger confirm --module shop.books:confirmer --timeout 5 --every 60
    """
    screen = options.screen_of(machine, no_color)
    confirmer = confirmer_of(module)
    with options.client_of(server, folder, token_file, role) as client, _stopped() as stop:
        confirming = Confirming(client, confirmer, timeout_s=timeout, concurrency=concurrency)
        last: dict[tuple[str, str], Found] = {}
        while True:
            pause_s = every
            found = list[Found]()
            try:
                unknowns = list(client.unknowns(run=run))
                for each in confirming.settle_all(unknowns):
                    found.append(each)
                    _tell(screen, each, last)
                pause_s = min([every, *_waits_s(found)])
            except LedgerUnavailable as lost:
                if once:
                    raise
                screen.note(str(lost))
            if once:
                _account(screen, found)
                return
            if stop.wait(pause_s):
                _account(screen, list(last.values()), told=True)
                return


def confirmer_of(module: str) -> Confirmer:
    """The function that `PKG.MOD:NAME` names; modules of the current folder are found too."""
    path, _, name = module.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        named = getattr(importlib.import_module(path), name)
    except (ImportError, AttributeError, ValueError) as fault:
        raise Stop(
            f"there is no confirmer {module!r}: {fault}.",
            safe="Nothing was asked and nothing was decided.",
            next="Name a function as --module PKG.MOD:NAME; the current folder is looked in.",
            code=Code.WRONG_USAGE,
        ) from fault
    if not callable(named):
        raise Stop(
            f"{module!r} is no function.",
            safe="Nothing was asked and nothing was decided.",
            next="A confirmer is called with one unknown step.",
            code=Code.WRONG_USAGE,
        )
    found: Confirmer = named
    return found


@contextmanager
def _stopped() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set: the round in hand is ended first."""
    stop = threading.Event()

    def told(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _waits_s(found: list[Found]) -> list[float]:
    now = datetime.now(UTC)
    return [
        max(0.05, (each.until - now).total_seconds()) for each in found if isinstance(each, Waits)
    ]


def _tell(screen: Screen, found: Found, last: dict[tuple[str, str], Found]) -> None:
    """What is new about a step: the same answer round after round is said once."""
    unknown = found.unknown
    place = (unknown.run, unknown.step)
    if last.get(place) == found:
        return
    last[place] = found
    screen.item(_json(found))
    screen.say(f"{unknown.run} {unknown.step}: {' '.join(_words(found))}")


def _account(screen: Screen, found: list[Found], *, told: bool = False) -> None:
    counts = {
        "settled": sum(isinstance(each, Settled) for each in found),
        "waits": sum(isinstance(each, Waits) for each in found),
        "left": sum(isinstance(each, LeftForPerson) for each in found),
    }
    screen.final(counts)
    if not found:
        screen.say("Nothing is unknown.")
        return
    rows = table("run", "step", Column("what"), Column("why", folds=True, below=True))
    for each in sorted(found, key=lambda one: (one.unknown.run, one.unknown.step)):
        what, why = _words(each)
        rows.add(each.unknown.run, each.unknown.step, styled(what), why)
    screen.say(rows)
    if counts["left"]:
        screen.say("", "What is left waits for a person: `ledger unknown`, `ledger reconcile`.")
    if not told and counts["waits"] + counts["left"]:
        sys.exit(Code.INCOMPLETE)


def _words(found: Found) -> tuple[str, str]:
    match found:
        case Settled(_, verdict, index):
            state = "EXECUTED" if verdict is Verdict.EXECUTED else "NOT_EXECUTED"
            return f"RECONCILED_{state}", "before" if index is None else f"entry {index:,}"
        case Waits(_, until):
            return "waits", f"the call may still land until {local(until)}"
        case LeftForPerson(_, why):
            return "left", why
        case _:
            assert_never(found)


def _json(found: Found) -> dict[str, object]:
    unknown: UnknownStep = found.unknown
    members: dict[str, object] = {"run": unknown.run, "step": unknown.step}
    match found:
        case Settled(_, verdict, index):
            return members | {"found": "settled", "verdict": verdict.name, "index": index}
        case Waits(_, until):
            return members | {"found": "waits", "until": stamp(until)}
        case LeftForPerson(_, why):
            return members | {"found": "left", "why": why}
        case _:
            assert_never(found)
