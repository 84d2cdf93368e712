"""`ledger unknown` and `ledger reconcile`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from ledger.cli import options
from ledger.cli.rows import Column
from ledger.cli.screen import Screen, local, stamp, styled, table
from ledger.cli.stops import Code, Stop
from ledger.client import Ledger, Payload, Reconciled, StandingProposal, UnknownStep, Verdict
from ledger.client.payloads import ABSENT, Absent

_ROLE: Final = "reviewer"
_DECIDE: Final = "The decision"

Executed = Annotated[
    bool | None,
    typer.Option(
        "--executed/--not-executed",
        help="Whether the effect happened in the outside world.",
        rich_help_panel=_DECIDE,
    ),
]
ReasonCode = Annotated[
    str,
    typer.Option(
        "--reason-code",
        metavar="ID",
        help="Why, for programs: receipt_found, no_receipt, ...",
        rich_help_panel=_DECIDE,
    ),
]
ReasonText = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", help="Why, for people.", rich_help_panel=_DECIDE),
]
EvidenceFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--evidence",
        metavar="FILE",
        help="What the decision rests on; may be given again.",
        rich_help_panel=_DECIDE,
    ),
]
ResultFile = Annotated[
    Path | None,
    typer.Option(
        "--result",
        metavar="FILE",
        help="The tool's result as a JSON file, where it is known.",
        rich_help_panel=_DECIDE,
    ),
]
ExpectedVersion = Annotated[
    int | None,
    typer.Option(
        "--expected-version",
        metavar="INDEX",
        help="Refuse if the step changed since this entry (`ledger unknown --json` has it).",
        rich_help_panel=_DECIDE,
    ),
]
ProposalIndex = Annotated[
    int | None,
    typer.Option(
        "--proposal",
        metavar="INDEX",
        help="Where two people decide: the entry of another's proposal that you confirm "
        "(`ledger unknown` names it).",
        rich_help_panel=_DECIDE,
    ),
]
Supersedes = Annotated[
    int | None,
    typer.Option(
        "--supersedes",
        metavar="INDEX",
        help="The entry of the standing decision that this one replaces (`ledger unknown` and "
        "`ledger show` name it).",
        rich_help_panel=_DECIDE,
    ),
]


def unknown(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Only this run.")] = "",
    server: options.Server = options.DEFAULT_SERVER,
    folder: options.Folder = options.DEFAULT_FOLDER,
    token_file: options.TokenFile = None,
    role: options.Who = _ROLE,
    utc: options.Utc = False,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """List steps that were started and of which nobody can say what came.

    Writes that double come first, then by age. The list is empty only if there are none: an outage
    is an error.

    [bold]Examples[/bold]

      ledger unknown
      ledger unknown order-4711 --json
    """
    screen = options.screen_of(machine, no_color)
    with options.client_of(server, folder, token_file, role) as client:
        found = list(client.unknowns(run=run))
    if machine:
        for each in found:
            screen.item(_unknown_json(each))
        screen.final({"count": len(found)})
        return
    if not found:
        screen.say("Nothing is unknown.")
        return
    rows = table(
        "run",
        "step",
        Column("effect"),
        Column("since"),
        Column("tool", folds=True, below=True),
        Column("why", folds=True, below=True),
        Column("not executed from", below=True),
        Column("decision", folds=True, below=True),
        Column("proposed", folds=True, below=True),
    )
    for each in found:
        rows.add(
            each.run,
            each.step,
            each.effect_class.name,
            local(each.since, utc=utc),
            f"{each.tool} {each.tool_version}",
            _why(each),
            local(_next_second(each.not_executed_from), utc=utc),
            _decision(each),
            ", ".join(_proposal(proposal) for proposal in each.proposals),
        )
    first = found[0]
    command = f"  ledger reconcile {shlex.join([first.run, first.step])}"
    if first.decision_index is not None:
        command += f" --supersedes {first.decision_index}"
    screen.say(
        rows,
        "",
        "Ask the outside system whether it happened, then settle each one by --executed",
        "or --not-executed; on a terminal you are asked for what is left out:",
        command,
    )
    if any(each.decision_index is not None for each in found):
        screen.say("Where a decision stands, only somebody who made none of the step's decides.")


def _next_second(when: datetime | None) -> datetime | None:
    """The first whole second from which it holds: shown to the second, it must not be early."""
    return when and when + timedelta(seconds=1, microseconds=-1)


def reconcile(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run.")],
    step: Annotated[str, typer.Argument(metavar="STEP", help="The step.")],
    executed: Executed = None,
    reason_code: ReasonCode = "",
    reason: ReasonText = "",
    evidence: EvidenceFiles = None,
    result: ResultFile = None,
    expected_version: ExpectedVersion = None,
    supersedes: Supersedes = None,
    proposal: ProposalIndex = None,
    server: options.Server = options.DEFAULT_SERVER,
    folder: options.Folder = options.DEFAULT_FOLDER,
    token_file: options.TokenFile = None,
    role: options.Who = _ROLE,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Settle an unknown step by a decision that is recorded under your name, for ever.

    Look into the outside system first: `--executed` if the effect is there, `--not-executed` if it
    surely is not. On a terminal you are asked for what is missing; nothing is guessed. Whoever
    drove the run may not decide in it, and `--not-executed` is refused while the call may still
    land.

    [bold]Examples[/bold]

      ledger reconcile order-4711 s2
      ledger reconcile order-4711 s2 --executed --reason-code receipt_found
      ledger reconcile order-4711 s3 --not-executed --reason-code no_receipt
    """
    screen = options.screen_of(machine, no_color)
    with options.client_of(server, folder, token_file, role) as client:
        found = find(client, run, step, expected_version)
        asking = sys.stdin.isatty() and not machine
        if asking:
            describe(screen, found)
        if executed is None:
            executed = ask_executed(asking)
        reason_code = reason_code or ask_code(asking, executed=executed)
        if asking and not reason:
            reason = typer.prompt("Why, in a sentence (stored sealed)", default="", err=True)
        decided = client.reconcile(
            found,
            Verdict.EXECUTED if executed else Verdict.NOT_EXECUTED,
            reason_code=reason_code,
            reason=reason,
            evidence=[read(path) for path in evidence or ()],
            result=result_of(result),
            supersedes_index=supersedes,
            proposal_index=proposal,
        )
    _tell(screen, found, decided)


def _tell(screen: Screen, found: UnknownStep, decided: Reconciled) -> None:
    index = decided.append.index if decided.append else None
    screen.final(
        {
            "run": found.run,
            "step": found.step,
            "state": decided.state.name,
            "index": index,
            "recorded_at": stamp(decided.append.recorded_at) if decided.append else "",
        }
    )
    screen.say(
        Text.assemble(f"run {found.run}, step {found.step}: ", styled(decided.state.name)),
        f"Recorded as entry {index:,}; `ledger receipt {index}` proves it."
        if index is not None
        else "It was recorded before.",
    )


def find(client: Ledger, run: str, step: str, expected_version: int | None) -> UnknownStep:
    """The step with the version a decision names. A settled one is found too, to be superseded."""
    for each in client.unknowns(run=run):
        if each.step == step:
            return _at(each, expected_version)
    for info in client.get_run(run).steps:
        if info.step == step:
            return UnknownStep(
                run,
                step,
                info.version if expected_version is None else expected_version,
                attempt=info.attempt,
                tool=info.tool,
                tool_version=info.tool_version,
                effect_class=info.effect_class,
                cause=info.cause,
                state=info.state,
                contradiction=info.contradiction,
                decision_index=info.decision_index,
            )
    raise Stop(
        f"run {run!r} has no step {step!r}.",
        safe="Nothing was decided.",
        next=f"`ledger show {run}` lists its steps.",
        code=Code.REFUSED,
        reason="STEP_NOT_PLANNED",
    )


def _proposal(proposal: StandingProposal) -> str:
    word = "executed" if proposal.executed else "not executed"
    return f"{proposal.index}: {word} by {proposal.proposer}"


def _decision(found: UnknownStep) -> str:
    return "" if found.decision_index is None else str(found.decision_index)


def _at(found: UnknownStep, expected_version: int | None) -> UnknownStep:
    if expected_version is None or expected_version == found.expected_version:
        return found
    raise Stop(
        f"step {found.step!r} changed: its last entry is {found.expected_version:,}, not "
        f"{expected_version:,}.",
        safe="Nothing was decided.",
        next=f"Look again with `ledger show {found.run}`, then decide anew.",
        code=Code.REFUSED,
        reason="VERSION_MISMATCH",
    )


def describe(screen: Screen, found: UnknownStep) -> None:
    screen.say(
        Text.assemble("run ", (found.run, "bold"), ", step ", (found.step, "bold")),
        f"  tool     {found.tool} {found.tool_version}, {found.effect_class.name}",
        f"  attempt  {found.attempt}",
        Text.assemble("  stands   ", styled(found.state.name), f" {_why(found)}"),
    )
    if found.decision_index is not None:
        screen.say(f"  decided  by entry {found.decision_index}; a new one has to supersede it")
    if found.not_executed_from is not None and found.not_executed_from > datetime.now(UTC):
        screen.say(
            f"  until    {local(found.not_executed_from)} the call may still land: not executed "
            "cannot be decided before"
        )


def ask_executed(asking: bool) -> bool:
    if not asking:
        raise Stop(
            "the decision itself is missing: --executed or --not-executed.",
            safe="Nothing was decided, and nothing is guessed.",
            next="Ask the outside system whether the effect is there, then say which it is.",
            code=Code.WRONG_USAGE,
        )
    answer = ""
    while answer not in ("yes", "no"):
        answer = typer.prompt("Did the effect happen in the outside world? (yes/no)", err=True)
    return answer == "yes"


def ask_code(asking: bool, *, executed: bool) -> str:
    if not asking:
        raise Stop(
            "the reason code is missing: --reason-code ID.",
            safe="Nothing was decided.",
            next="Give a short id that programs can count, such as "
            + ("receipt_found." if executed else "no_receipt."),
            code=Code.WRONG_USAGE,
        )
    code: str = typer.prompt(
        f"Reason code ({'receipt_found' if executed else 'no_receipt'}, ...)", err=True
    )
    return code


def read(path: Path) -> Payload:
    try:
        return Payload(path.read_bytes(), "application/octet-stream")
    except OSError as fault:
        raise Stop(
            f"{path} cannot be read: {fault.strerror}.",
            safe="Nothing was decided.",
            code=Code.WRONG_USAGE,
        ) from None


def result_of(path: Path | None) -> Payload | Absent:
    return ABSENT if path is None else Payload(read(path).content, "application/json")


def _why(found: UnknownStep) -> str:
    words: Sequence[str] = (found.cause, "CONTRADICTED" if found.contradiction else "")
    return ", ".join(word for word in words if word)


def _unknown_json(found: UnknownStep) -> dict[str, object]:
    return {
        "run": found.run,
        "step": found.step,
        "tool": found.tool,
        "tool_version": found.tool_version,
        "effect": found.effect_class.name,
        "state": found.state.name,
        "attempt": found.attempt,
        "key": found.key,
        "cause": found.cause,
        "since": stamp(found.since),
        "not_executed_from": stamp(found.not_executed_from),
        "expected_version": found.expected_version,
        "contradiction": found.contradiction,
        "proposals": [
            {
                "index": each.index,
                "verdict": "executed" if each.executed else "not_executed",
                "reason_code": each.reason_code,
                "proposer": each.proposer,
                "proposed_at": stamp(each.proposed_at),
            }
            for each in found.proposals
        ],
        "decision": found.decision_index,
    }
