"""The command `ledger`: its parts put together, and how an error becomes words and an exit code."""

from __future__ import annotations

import sys
from typing import Final

import typer

from ledger.cli import (
    accessing,
    attesting,
    bulk,
    checking,
    confirming,
    demonstrating,
    housekeeping,
    projecting,
    proposing,
    reading,
    reviewing,
    running,
)
from ledger.cli.screen import Screen
from ledger.cli.stops import Code, Stop, stop_of
from ledger.cli.teaching import paragraphs, taught
from ledger.client import LedgerError

_HELP: Final = """
Record what agents are about to do, settle what nobody knows, and prove that the record is whole.

[bold]First steps[/bold]

  See it work       ledger demo
  Run a server      ledger serve
  What is unknown?  ledger unknown
  Settle one        ledger reconcile RUN STEP --executed
  Prove it          ledger export ./log && ledger verify ./log --key FILE

Tokens are found in the server's data folder: --data, else LEDGER_DATA, else ./ledger-data.

Exit codes: 0 done, 1 this program broke, 2 wrong usage. Of a verdict: 3 incomplete,
4 unverifiable, 5 failed. Of the ledger: 6 refused, 7 no definite answer, 8 no credential,
9 an extra is missing. 130 interrupted.
"""

RUN_ONE: Final = "Run a ledger"
READ: Final = "See what is recorded, and settle what is not known"
PROVE: Final = "Prove it"

app = typer.Typer(
    name="ledger",
    help=paragraphs(_HELP),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _panel, _command in (
    ("demo", RUN_ONE, demonstrating.demo),
    ("serve", RUN_ONE, running.serve),
    ("health", RUN_ONE, running.health),
    ("migrate", RUN_ONE, housekeeping.migrate),
    ("version", RUN_ONE, running.version),
    ("runs", READ, reading.runs),
    ("show", READ, reading.show),
    ("payload", READ, accessing.payload),
    ("unknown", READ, reviewing.unknown),
    ("reconcile", READ, reviewing.reconcile),
    ("reconcile-all", READ, bulk.reconcile_all),
    ("propose", READ, proposing.propose),
    ("confirm", READ, confirming.confirm),
    ("receipt", PROVE, attesting.receipt),
    ("export", PROVE, attesting.export),
    ("verify", PROVE, checking.verify),
    ("access", PROVE, accessing.access),
):
    app.command(_name, help=taught(_command), rich_help_panel=_panel)(_command)
app.add_typer(housekeeping.keys, name="keys", rich_help_panel=RUN_ONE)
app.add_typer(housekeeping.tenants, name="tenants", rich_help_panel=RUN_ONE)
app.add_typer(projecting.projections, name="projections", rich_help_panel=RUN_ONE)
app.add_typer(attesting.checkpoint, name="checkpoint", rich_help_panel=PROVE)


def main() -> None:
    """Run the command of `sys.argv` and end the process with its exit code."""
    machine = "--json" in sys.argv[1:]
    no_color = "--no-color" in sys.argv[1:]
    try:
        app()
    except Stop as stop:
        _end(stop, machine=machine, no_color=no_color)
    except LedgerError as error:
        _end(stop_of(error), machine=machine, no_color=no_color)
    except BrokenPipeError:
        # The reader of a pipe has gone: what it wanted it has, and there is nobody to tell.
        sys.stderr.close()
        sys.exit(Code.DONE)


def _end(stop: Stop, *, machine: bool, no_color: bool) -> None:
    Screen.of(machine=machine, no_color=no_color).stop(stop)
    sys.exit(stop.code)
