"""`ledger propose`: the first of two people's words on an unknown step."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer
from rich.text import Text

from ledger.cli import options, reviewing
from ledger.cli.screen import stamp
from ledger.client import Verdict


def propose(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run.")],
    step: Annotated[str, typer.Argument(metavar="STEP", help="The step.")],
    executed: reviewing.Executed = None,
    reason_code: reviewing.ReasonCode = "",
    reason: reviewing.ReasonText = "",
    evidence: reviewing.EvidenceFiles = None,
    result: reviewing.ResultFile = None,
    expected_version: reviewing.ExpectedVersion = None,
    supersedes: reviewing.Supersedes = None,
    server: options.Server = options.DEFAULT_SERVER,
    folder: options.Folder = options.DEFAULT_FOLDER,
    token_file: options.TokenFile = None,
    role: options.Who = "reviewer",
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Propose a decision that a second person confirms, where two people decide.

    It changes nothing by itself, and stands until news on the step or a new proposal of yours. The
    rules of a decision hold for it: see `ledger reconcile --help`.

    [bold]Examples[/bold]

      ledger propose order-4711 s2 --executed --reason-code receipt_found
    """
    screen = options.screen_of(machine, no_color)
    with options.client_of(server, folder, token_file, role) as client:
        found = reviewing.find(client, run, step, expected_version)
        asking = sys.stdin.isatty() and not machine
        if asking:
            reviewing.describe(screen, found)
        if executed is None:
            executed = reviewing.ask_executed(asking)
        reason_code = reason_code or reviewing.ask_code(asking, executed=executed)
        proposed = client.propose(
            found,
            Verdict.EXECUTED if executed else Verdict.NOT_EXECUTED,
            reason_code=reason_code,
            reason=reason,
            evidence=[reviewing.read(path) for path in evidence or ()],
            result=reviewing.result_of(result),
            supersedes_index=supersedes,
        )
    append = proposed.append
    index = append.index if append else None
    screen.final(
        {
            "run": run,
            "step": step,
            "index": index,
            "recorded_at": stamp(append.recorded_at) if append else "",
        }
    )
    word = "--executed" if executed else "--not-executed"
    screen.say(
        Text.assemble("run ", (run, "bold"), ", step ", (step, "bold"), ": proposed"),
        "Another reviewer confirms it:",
        f"  ledger reconcile {shlex.join([run, step])} {word} --proposal {index}",
    )
