"""`ledger payload INDEX [NAME]` and `ledger access`: reading what is sealed, and who read it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from ledger.cli import options
from ledger.cli.rows import Column
from ledger.cli.screen import local, stamp, table
from ledger.cli.stops import Code, Stop
from ledger.cli.timeline import who_of
from ledger.client import Availability, Ledger, LogName
from ledger.core.entry import Entry, read_entry
from ledger.core.events import check_body

_REVIEWER: Final = "reviewer"
_ADMIN: Final = "admin"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def payload(
    index: Annotated[int, typer.Argument(metavar="INDEX", help="The entry's index.")],
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Which payload; may be left out if there is one."),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write it there instead of printing it."),
    ] = None,
    server: options.Server = options.DEFAULT_SERVER,
    folder: options.Folder = options.DEFAULT_FOLDER,
    token_file: options.TokenFile = None,
    role: options.Who = _REVIEWER,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Read a payload: the arguments of a step, a result, the text of a reason.

    Each reading is recorded in the access log, with who read what and when, before anything is
    handed out. `ledger show RUN` lists the entries of a run with their indexes.

    [bold]Examples[/bold]

      ledger payload 1284
      ledger payload 1284 arguments --out arguments.json
      ledger payload 1284 reason --json
    """
    screen = options.screen_of(machine, no_color)
    with options.client_of(server, folder, token_file, role) as client:
        found = _payload_id(client, index, name)
        disclosed = client.payload(index, payload_id=found["id"])
    stored = disclosed.payload
    if stored.availability is not Availability.PRESENT:
        raise Stop(
            f"payload {found['name']} of entry {index:,} was erased.",
            safe="The entry and its commitment stand as they were.",
            code=Code.REFUSED,
            reason=stored.availability.name,
        )
    content = stored.content
    screen.final(
        {
            "index": index,
            "name": found["name"],
            "payload_id": found["id"],
            "media_type": stored.media_type,
            "content": content.decode("utf-8", "replace"),
            "content_hex": content.hex(),
            "salt": disclosed.salt.hex(),
        }
    )
    if out is not None:
        out.write_bytes(content)
        screen.say(f"Payload {found['name']} of entry {index:,} is in {out}.")
    elif not machine:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.write(b"\n" if sys.stdout.isatty() else b"")
        sys.stdout.flush()


def access(
    start: Annotated[
        int, typer.Option("--start", metavar="INDEX", help="The first entry to list.")
    ] = 0,
    server: options.Server = options.DEFAULT_SERVER,
    folder: options.Folder = options.DEFAULT_FOLDER,
    token_file: options.TokenFile = None,
    role: options.Who = _ADMIN,
    utc: options.Utc = False,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """List the access log: who was refused, who read what, and administrators' acts.

    Needs the role audit. Listing it is recorded in it, so the last line is this one. It shows and
    proves nothing; `ledger verify --access` does.

    [bold]Examples[/bold]

      ledger access
      ledger access --start 1000 --utc
      ledger access --json | head -1
    """
    screen = options.screen_of(machine, no_color)
    with options.client_of(server, folder, token_file, role) as client:
        entries = [
            read_entry(each.entry, index=each.index, check_body=check_body)
            for each in client.entries(start=start, log=LogName.ACCESS)
        ]
    if machine:
        for entry in entries:
            screen.item(_entry_json(entry))
        screen.final({"count": len(entries)})
        return
    rows = table(
        Column("entry", right=True),
        Column("time"),
        Column("what"),
        Column("about", folds=True, below=True),
        Column("who", folds=True),
    )
    for entry in entries:
        rows.add(
            f"{entry.index:,}",
            Text(local(_at(entry), utc=utc), "dim"),
            entry.type.removeprefix("access."),
            _about(entry),
            who_of(entry),
        )
    screen.say(rows)


def _payload_id(client: Ledger, index: int, name: str) -> Mapping[str, str]:
    """The payload of that name which the entry at `index` names."""
    entry = next(iter(client.entries(start=index)), None)
    named: list[Mapping[str, str]] = []
    if entry is not None:
        event = read_entry(entry.entry, index=index, check_body=check_body).event
        payloads = event["payloads"]
        named = [
            {"id": str(each["id"]), "name": str(each["name"])}
            for each in (payloads if isinstance(payloads, list) else ())
            if isinstance(each, dict)
        ]
    found = [each for each in named if name in ("", each["name"])]
    if len(found) == 1:
        return found[0]
    there = ", ".join(each["name"] for each in named) or "none"
    raise Stop(
        f"entry {index:,} has not exactly one payload of that name; it has: {there}."
        if entry is not None
        else f"the log has no entry {index:,}.",
        safe="Nothing was read.",
        next="`ledger show RUN` lists the entries of a run with their indexes.",
        code=Code.WRONG_USAGE,
    )


def _entry_json(entry: Entry) -> dict[str, object]:
    return {
        "index": entry.index,
        "at": stamp(_at(entry)),
        "type": entry.type,
        "who": who_of(entry),
        "actor": entry.event["actor"],
        "request": entry.event["request"],
        "body": entry.event["body"],
    }


def _about(entry: Entry) -> str:
    body = entry.event["body"]
    members = body.items() if isinstance(body, dict) else ()
    return " ".join(f"{name}={value}" for name, value in members)


def _at(entry: Entry) -> datetime:
    return _EPOCH + timedelta(microseconds=entry.recorded_at_us)
