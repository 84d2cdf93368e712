"""`ledger runs` and `ledger show RUN`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from ledger.cli import options
from ledger.cli.mirror import Mirror, MirrorUnreadable
from ledger.cli.rows import Column, Rows
from ledger.cli.screen import Screen, local, stamp, styled, table, zone
from ledger.cli.stops import Code, Stop
from ledger.cli.timeline import Moment, RunStory, StepStory, tell
from ledger.client import Ledger, Reason, Refused, RunInfo
from ledger.core.entry import Entry, read_entry
from ledger.core.events import check_body

_ROLE: Final = "reviewer"


def runs(
    server: options.Server = options.DEFAULT_SERVER,
    folder: options.Folder = options.DEFAULT_FOLDER,
    token_file: options.TokenFile = None,
    role: options.Who = _ROLE,
    open_only: Annotated[
        bool, typer.Option("--open", help="Only runs that are not closed.")
    ] = False,
    utc: options.Utc = False,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """List runs, newest activity first.

    [bold]Examples[/bold]

      ledger runs
      ledger runs --open
      ledger runs --json | head -1
    """
    screen = options.screen_of(machine, no_color)
    with options.client_of(server, folder, token_file, role) as client:
        found = list(client.runs(open_only=open_only))
    if machine:
        for info in found:
            screen.item(_run_json(info))
        screen.final({"count": len(found)})
        return
    if not found:
        screen.say("No runs." if not open_only else "No open runs.")
        return
    rows = table(
        "run",
        Column("status"),
        Column("steps", right=True),
        Column("changed"),
        Column("driven by", folds=True, below=True),
    )
    for info in found:
        rows.add(
            info.run,
            styled(info.status.name if info.status else "OPEN"),
            _steps(info),
            local(info.changed_at, utc=utc),
            info.lease.holder if info.lease and info.lease.live else "",
        )
    screen.say(rows)


def show(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")],
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Read an exported log instead of asking a server.",
        ),
    ] = None,
    server: options.Server = options.DEFAULT_SERVER,
    folder: options.Folder = options.DEFAULT_FOLDER,
    token_file: options.TokenFile = None,
    role: options.Who = _ROLE,
    utc: options.Utc = False,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Tell a run's story: its steps, every attempt, who did what and when, and each decision.

    Reads the log's own entries, from a server or from a folder made by `ledger export`. It shows
    them and proves nothing; `ledger verify` does.

    [bold]Examples[/bold]

      ledger show order-4711
      ledger show order-4711 --utc --json
      ledger show order-4711 --from ./log
    """
    screen = options.screen_of(machine, no_color)
    if source is not None:
        entries = _from_folder(source, run)
    else:
        with options.client_of(server, folder, token_file, role) as client:
            entries = list(_from_server(client, run))
    if not entries:
        raise Stop(
            f"there is no run {run!r} in {source if source is not None else 'this ledger'}.",
            safe="Asking changed nothing.",
            next="`ledger runs` lists the runs.",
            code=Code.REFUSED,
            reason="RUN_NOT_FOUND",
        )
    story = tell(run, entries)
    if machine:
        _story_json(screen, story)
    else:
        _story_text(screen, story, utc=utc)


def _from_server(client: Ledger, run: str) -> Iterator[Entry]:
    try:
        for entry in client.run_entries(run):
            yield read_entry(entry.entry, index=entry.index, check_body=check_body)
    except Refused as refused:
        if refused.reason not in (Reason.UNSPECIFIED, Reason.RUN_NOT_FOUND):
            raise


def _from_folder(source: Path, run: str) -> list[Entry]:
    try:
        return Mirror(source).run_entries(run)
    except MirrorUnreadable as fault:
        raise Stop(
            str(fault),
            safe="Nothing was written.",
            next="Name a folder made by `ledger export`.",
            code=Code.UNVERIFIABLE,
        ) from None


def _story_json(screen: Screen, story: RunStory) -> None:
    for moment in story.moments:
        screen.item(
            {
                "index": moment.index,
                "at": stamp(moment.at),
                "type": moment.type,
                "step": moment.step,
                "state": moment.state,
                "what": moment.what,
                "who": moment.who,
            }
        )
    screen.final(
        {
            "run": story.run,
            "status": story.status,
            "reason": story.reason,
            "labels": dict(story.labels),
            "entries": len(story.moments),
            "steps": [_step_json(step) for step in story.steps.values()],
        }
    )


def _step_json(step: StepStory) -> dict[str, object]:
    return {
        "step": step.step,
        "tool": step.tool,
        "version": step.version,
        "effect": step.effect,
        "key": step.key,
        "supersedes": step.supersedes,
        "state": step.state,
        "attempts": step.attempts,
        "decided_by": step.decided_by,
        "decision": step.decision,
        "contradiction": step.contradiction,
    }


def _story_text(screen: Screen, story: RunStory, *, utc: bool) -> None:
    head = Text.assemble("run ", (story.run, "bold"), "  ", styled(story.status))
    if story.reason:
        head.append(f" ({story.reason})")
    screen.say(head)
    if story.labels:
        screen.say(Text("  ".join(f"{name}={text}" for name, text in story.labels), "dim"))
    screen.say("", _steps_table(story), "")
    screen.say(_moments_table(story.moments, utc=utc))


def _steps_table(story: RunStory) -> Rows:
    rows = table(
        "step",
        "tool",
        Column("effect", below=True),
        Column("attempts", right=True),
        Column("stands at"),
        Column("decided by, entry", folds=True, below=True),
    )
    for step in story.steps.values():
        state = styled(step.state)
        if step.contradiction:
            state.append("  CONTRADICTED", "bold red")
        rows.add(
            step.step,
            f"{step.tool} {step.version}",
            step.effect,
            str(step.attempts),
            state,
            step.decided_by if step.decision is None else f"{step.decided_by}, {step.decision}",
        )
    return rows


def _moments_table(moments: list[Moment], *, utc: bool) -> Rows:
    rows = table(
        Column("entry", right=True),
        Column("time"),
        "step",
        Column("state"),
        Column("what", folds=True, below=True),
        Column("who", folds=True),
    )
    day = ""
    for moment in moments:
        at = moment.at if utc else moment.at.astimezone()
        date = f"{at:%Y-%m-%d}{zone(at)}"
        if date != day:
            day = date
            rows.band(Text(date, "bold"))
        rows.add(
            f"{moment.index:,}",
            Text(f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}", "dim"),
            moment.step,
            styled(moment.state),
            moment.what,
            Text(moment.who, "dim"),
        )
    return rows


def _steps(info: RunInfo) -> str:
    total = sum(info.step_counts.values())
    unknown = info.step_counts.get("UNKNOWN", 0)
    return f"{unknown} unknown of {total}" if unknown else str(total)


def _run_json(info: RunInfo) -> dict[str, object]:
    return {
        "run": info.run,
        "status": info.status.name if info.status else "OPEN",
        "reason": info.reason,
        "opened_by": info.opened_by,
        "opened_at": stamp(info.opened_at),
        "changed_at": stamp(info.changed_at),
        "steps": dict(info.step_counts),
        "holder": info.lease.holder if info.lease and info.lease.live else "",
        "labels": dict(info.labels),
        "index": info.index,
    }
