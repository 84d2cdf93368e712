"""`ledger reconcile-all`: many unknowns of one outage, one decision for each under one reason."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from ledger.cli import options, reviewing
from ledger.cli.rows import Column
from ledger.cli.screen import Screen, styled, table
from ledger.cli.stops import Code, Stop
from ledger.client import Ledger, LedgerError, Reconciled, Refused, UnknownStep, Verdict
from ledger.client.calls import Command
from ledger.client.review_requests import propose_decision
from ledger.client.review_requests import reconcile as reconcile_request

_A_MESSAGE: Final = 100
_WHICH: Final = "Which steps"

Tool = Annotated[
    str,
    typer.Option("--all-of", metavar="TOOL", help="All of a tool.", rich_help_panel=_WHICH),
]
FromFile = Annotated[
    Path | None,
    typer.Option(
        "--from-file",
        metavar="FILE",
        help="Those of a file: lines of `ledger unknown --json`, shortened to what you looked at.",
        rich_help_panel=_WHICH,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List them, and decide nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask again: for scripts.")]
Propose = Annotated[
    bool,
    typer.Option("--propose", help="Where two people decide: propose, for another to confirm."),
]
Confirm = Annotated[
    bool,
    typer.Option("--confirm", help="Where two people decide: confirm what another proposed."),
]


@dataclass(frozen=True, slots=True)
class _Settled:
    """What came of one step: its word for people and programs, and why where it was refused."""

    step: UnknownStep
    word: str
    why: str = ""
    index: int | None = None


def reconcile_all(
    tool: Tool = "",
    from_file: FromFile = None,
    executed: reviewing.Executed = None,
    reason_code: reviewing.ReasonCode = "",
    reason: reviewing.ReasonText = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    propose: Propose = False,
    confirm: Confirm = False,
    server: options.Server = options.DEFAULT_SERVER,
    folder: options.Folder = options.DEFAULT_FOLDER,
    token_file: options.TokenFile = None,
    role: options.Who = "reviewer",
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Settle many unknown steps of one outage: one decision for each, under one reason.

    Each is decided as you saw it: a step that changed since is refused and stays in the list.
    Steps that a report contradicts, or that a decision stands on, are left out: they need a
    look of their own. What was settled, and what was refused and why, is told step by step.

    [bold]Examples[/bold]

      ledger reconcile-all --all-of send_invoice --not-executed --dry-run
      ledger reconcile-all --all-of send_invoice --not-executed --reason-code mail_was_down
    """
    screen = options.screen_of(machine, no_color)
    if bool(tool) == (from_file is not None) or (propose and confirm):
        raise _usage(
            "say which steps, by --all-of TOOL or by --from-file FILE, and at most one of "
            "--propose and --confirm."
        )
    if executed is None:
        executed = reviewing.ask_executed(False)
    verdict = Verdict.EXECUTED if executed else Verdict.NOT_EXECUTED
    with options.client_of(server, folder, token_file, role) as client:
        chosen = list(_chosen(client, tool, from_file))
        if not dry_run and not reason_code:
            reason_code = reviewing.ask_code(False, executed=executed)
        _list(screen, chosen, dry_run=dry_run)
        if dry_run or not chosen:
            screen.final({"count": len(chosen), "dry_run": 1})
            return
        _ask(len(chosen), executed=executed, yes=yes, asking=sys.stdin.isatty() and not machine)
        made: list[tuple[UnknownStep, Command]] = []
        for each in chosen:
            proposal = _proposed(each, executed=executed) if confirm else None
            made.append(
                (each, _request(each, verdict, reason_code, reason, proposal, propose=propose))
            )
        account = list(_send(client, made, screen))
    _tell(screen, account)


def _usage(what: str) -> Stop:
    return Stop(what, safe="Nothing was decided.", code=Code.WRONG_USAGE)


def _chosen(client: Ledger, tool: str, from_file: Path | None) -> Iterator[UnknownStep]:
    """The steps of the list that were meant, as they stand or as the file says they were seen."""
    seen = None if from_file is None else _seen(from_file)
    for each in client.unknowns():
        if each.contradiction or each.decision_index is not None:
            continue
        if seen is None:
            if each.tool == tool:
                yield each
            continue
        version = seen.pop((each.run, each.step), None)
        if version is not None:
            yield UnknownStep(
                each.run,
                each.step,
                version,
                tool=each.tool,
                tool_version=each.tool_version,
                effect_class=each.effect_class,
                state=each.state,
                proposals=each.proposals,
            )
    if seen:
        run, step = next(iter(seen))
        raise Stop(
            f"{len(seen)} steps of the file are not unknown any more, or need a look of their own; "
            f"the first is step {step!r} of run {run!r}.",
            safe="Nothing was decided.",
            next="List them anew with `ledger unknown --json`.",
            code=Code.REFUSED,
            reason="WRONG_STATE",
        )


def _seen(path: Path) -> dict[tuple[str, str], int]:
    """(run, step) to the version it was seen at, of each line that names a step."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        items = [json.loads(line) for line in lines if line.strip()]
        found = {
            (str(item["run"]), str(item["step"])): int(item["expected_version"])
            for item in items
            if "run" in item
        }
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise _usage(f"{path} is not made of lines of `ledger unknown --json`: {fault}.") from None
    if not found:
        raise _usage(f"{path} names no step.")
    return found


def _list(screen: Screen, chosen: Sequence[UnknownStep], *, dry_run: bool) -> None:
    if not chosen:
        screen.say("None of that is unknown.")
        return
    rows = table("run", "step", Column("tool", folds=True), "effect")
    for each in chosen:
        if dry_run:
            screen.item(
                {"run": each.run, "step": each.step, "expected_version": each.expected_version}
            )
        rows.add(each.run, each.step, f"{each.tool} {each.tool_version}", each.effect_class.name)
    screen.say(rows)


def _ask(count: int, *, executed: bool, yes: bool, asking: bool) -> None:
    if yes:
        return
    if not asking:
        raise _usage(f"{count} decisions would be made: say --yes, or look with --dry-run.")
    word = "executed" if executed else "not executed"
    if not typer.confirm(f"Decide for all {count}, under your name, that it was {word}?", err=True):
        raise Stop("you said no.", safe="Nothing was decided.", code=Code.WRONG_USAGE)


def _proposed(step: UnknownStep, *, executed: bool) -> int | None:
    """The newest standing proposal that says the same; whose it is, the ledger looks at."""
    said = [each.index for each in step.proposals if each.executed == executed]
    return max(said, default=None)


def _request(
    step: UnknownStep,
    verdict: Verdict,
    reason_code: str,
    reason: str,
    proposal: int | None,
    *,
    propose: bool,
) -> Command:
    """A request of its own id for one step."""
    if propose:
        return propose_decision(
            run=step.run,
            step=step.step,
            verdict=verdict,
            expected_version=step.expected_version,
            reason_code=reason_code,
            reason=reason,
        )
    return reconcile_request(
        run=step.run,
        step=step.step,
        verdict=verdict,
        expected_version=step.expected_version,
        reason_code=reason_code,
        reason=reason,
        proposal_index=proposal,
    )


def _send(
    client: Ledger, made: Sequence[tuple[UnknownStep, Command]], screen: Screen
) -> Iterator[_Settled]:
    """Message by message. After one without a definite answer nothing more is sent."""
    lost = ""
    with Progress(
        TextColumn("deciding"),
        BarColumn(),
        MofNCompleteColumn(),
        console=screen.err,
        disable=screen.machine or not screen.err.is_terminal,
        transient=True,
    ) as bar:
        task = bar.add_task("deciding", total=len(made))
        for first in range(0, len(made), _A_MESSAGE):
            part = made[first : first + _A_MESSAGE]
            if lost:
                yield from (_Settled(step, "NOT_SENT") for step, _ in part)
                continue
            try:
                results = client.submit([command for _, command in part])
            except LedgerError as fault:
                lost = str(fault)
                yield from (_Settled(step, "NO_DEFINITE_ANSWER", lost) for step, _ in part)
                continue
            for (step, _), result in zip(part, results, strict=True):
                yield _settled(step, result)
            bar.update(task, advance=len(part))


def _settled(step: UnknownStep, result: object) -> _Settled:
    match result:
        case Refused():
            return _Settled(step, "REFUSED", result.reason.name)
        case LedgerError():
            return _Settled(step, "NO_DEFINITE_ANSWER", str(result))
        case Reconciled():
            index = result.append.index if result.append else None
            return _Settled(step, result.state.name, index=index)
        case _:
            append = getattr(result, "append", None)
            return _Settled(step, "PROPOSED", index=append.index if append else None)


def _tell(screen: Screen, account: Sequence[_Settled]) -> None:
    """Every step by what came of it, then the sums; status 6 or 7 where not all were settled."""
    rows = table("run", "step", "came to", "entry", Column("why", folds=True))
    for each in account:
        screen.item(
            {
                "run": each.step.run,
                "step": each.step.step,
                "came_to": each.word,
                "why": each.why,
                "index": each.index,
            }
        )
        entry = "" if each.index is None else f"{each.index:,}"
        rows.add(each.step.run, each.step.step, styled(each.word), entry, each.why)
    sums = Counter(each.word for each in account)
    screen.final({"count": len(account), **{word.lower(): sums[word] for word in sorted(sums)}})
    screen.say(rows, Text(", ".join(f"{count:,} {word}" for word, count in sorted(sums.items()))))
    unclear = sums["NO_DEFINITE_ANSWER"] + sums["NOT_SENT"]
    if unclear:
        raise Stop(
            f"{unclear:,} of {len(account):,} steps have no definite answer.",
            safe="What is told as settled is recorded.",
            next="Run the same command again: what is settled by then is left out.",
            code=Code.UNAVAILABLE,
        )
    if sums["REFUSED"]:
        raise Stop(
            f"{sums['REFUSED']:,} of {len(account):,} steps were refused.",
            safe="What is told as settled is recorded; the refused ones stay as they were.",
            next="Look at them with `ledger unknown`.",
            code=Code.REFUSED,
        )
