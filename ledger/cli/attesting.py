"""`ledger checkpoint`, `ledger receipt` and `ledger export`: what proves the record, handed out."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from ledger.cli import options
from ledger.cli.housekeeping import checkpoints_of, log_of, opened_store, record_act
from ledger.cli.mirror import Mirror, MirrorUnreadable, write_mirror
from ledger.cli.stops import Code, Stop
from ledger.cli.teaching import taught
from ledger.client import LogName, ReadPurpose
from ledger.core.events import AccessAdministered

_ROLE: Final = "admin"

checkpoint = typer.Typer(
    help="Get a signed checkpoint: a promise that pins the log's whole history so far.",
    invoke_without_command=True,
)

Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Write it there instead of printing it."),
]
Access = Annotated[
    bool, typer.Option("--access", help="Of the access log that stands beside the log.")
]


def get_checkpoint(
    context: typer.Context,
    out: Out = None,
    access: Access = False,
    server: options.Server = options.DEFAULT_SERVER,
    folder: options.Folder = options.DEFAULT_FOLDER,
    token_file: options.TokenFile = None,
    role: options.Who = _ROLE,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Get a signed checkpoint that includes everything acknowledged until now.

    Keep it away from the server: whoever holds one can show later that the log was cut off or
    rewritten below it (`ledger verify --held FILE`).

    [bold]Examples[/bold]

      ledger checkpoint
      ledger checkpoint --out 2026-11-30.checkpoint
      ledger checkpoint --json
    """
    if context.invoked_subcommand is not None:
        return
    screen = options.screen_of(machine, no_color)
    with options.client_of(server, folder, token_file, role) as client:
        got = client.checkpoint(log=LogName.ACCESS if access else LogName.UNSPECIFIED)
    if out is not None:
        _write(out, got.note)
    screen.final({"size": got.size, "checkpoint": got.note, "verifier_key": got.verifier_key})
    if out is not None:
        screen.say(f"Checkpoint of size {got.size:,} is in {out}.")
        screen.say(f"Key it is signed with: {got.verifier_key}")
    elif not machine:
        sys.stdout.write(got.note)


def pin(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A checkpoint that you trust, from elsewhere.")
    ],
    tenant: Annotated[
        str, typer.Option("--tenant", metavar="TENANT", help="Whose log it is.")
    ] = "default",
    by: Annotated[
        str,
        typer.Option("--by", metavar="ID", help="Who accepts it. Unset: your account's name."),
    ] = "",
    access: Access = False,
    folder: options.Folder = options.DEFAULT_FOLDER,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Accept a checkpoint as the point from which this log is signed on.

    For operators, with the server stopped: after the mark's file was lost, or after an older copy
    of the database was restored on purpose. The checkpoint must be signed by the log's own key, and
    the log must still hold what it signs. It is recorded who accepted what.

    [bold]Example[/bold]

      ledger checkpoint pin 2026-11-30.checkpoint --data /var/lib/ledger
      ledger checkpoint pin access.checkpoint --access --by operator-7
    """
    screen = options.screen_of(machine, no_color)
    try:
        note = file.read_bytes()
    except OSError as fault:
        raise Stop(
            f"{file} cannot be read: {fault.strerror}.",
            safe="Nothing was changed.",
            code=Code.WRONG_USAGE,
        ) from None
    with opened_store(folder, command="checkpoint pin") as (store, settings):
        from ledger.signing import PinRefused

        log = log_of(store, settings, tenant, access=access)
        try:
            pinned = checkpoints_of(store, settings).pin(log, note, by=by or getpass.getuser())
        except PinRefused as refused:
            raise Stop(
                str(refused),
                safe="The mark is as it was.",
                next="Pin a checkpoint of this log that it still holds, or restore the log.",
                code=Code.REFUSED,
            ) from None
        act = AccessAdministered(
            act="checkpoint.pin", origin=pinned.now.origin, size=pinned.now.size
        )
        beside = log_of(store, settings, tenant, access=True)
        recorded = record_act(store, beside, act, by=by)
    before = pinned.before.size if pinned.before is not None else None
    screen.final({"origin": pinned.now.origin, "size": pinned.now.size, "before": before})
    was = "there was no whole mark" if before is None else f"the mark was {before:,}"
    screen.say(f"{pinned.now.origin} is signed on from size {pinned.now.size:,}; {was}.")
    if not recorded:
        screen.note("It stands beside the mark, but could not be recorded in the access log.")


def receipt(
    index: Annotated[int | None, typer.Argument(metavar="INDEX", help="The entry's index.")] = None,
    request_id: Annotated[
        str,
        typer.Option(
            "--request-id",
            metavar="UUID",
            help="Your own request that appended it, instead of an index.",
        ),
    ] = "",
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FOLDER", help="Make it from an exported log; asks no server."
        ),
    ] = None,
    out: Out = None,
    server: options.Server = options.DEFAULT_SERVER,
    folder: options.Folder = options.DEFAULT_FOLDER,
    token_file: options.TokenFile = None,
    role: options.Who = _ROLE,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Get the receipt of an entry: a text that proves it stands in the log, without any server.

    It holds the entry's bytes, the path to the signed root, and the checkpoint (C2SP tlog-proof).

    [bold]Examples[/bold]

      ledger receipt 1284
      ledger receipt 1284 --out invoice.tlog-proof
      ledger verify invoice.tlog-proof --key audit.key
      ledger receipt 1284 --from ./log
    """
    screen = options.screen_of(machine, no_color)
    if (index is None) == (not request_id):
        raise Stop(
            "name the entry: its index, or the request that appended it (--request-id).",
            safe="Nothing was asked for.",
            next="`ledger show RUN` lists the entries of a run with their indexes.",
            code=Code.WRONG_USAGE,
        )
    if source is not None and index is not None:
        found, text = index, _receipt_of(source, index)
    else:
        with options.client_of(server, folder, token_file, role) as client:
            got = client.receipt(index, request_id=request_id or None)
            found, text = got.index, got.text
    if out is not None:
        _write(out, text)
    screen.final({"index": found, "receipt": text})
    if out is not None:
        screen.say(f"The receipt of entry {found:,} is in {out}.")
    elif not machine:
        sys.stdout.write(text)


def export(
    target: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A folder that is empty or not there yet.")
    ],
    access: Access = False,
    server: options.Server = options.DEFAULT_SERVER,
    folder: options.Folder = options.DEFAULT_FOLDER,
    token_file: options.TokenFile = None,
    role: options.Who = _ROLE,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Copy the whole log into a folder of plain files (C2SP tlog-tiles).

    Entries hold commitments, never payloads. `ledger verify`, `ledger show --from` and any tool
    that reads tiles work on it without a server.

    [bold]Examples[/bold]

      ledger export ./log
      ledger export ./log && ledger verify ./log --key audit.key
      ledger export ./access-log --access
    """
    screen = options.screen_of(machine, no_color)
    log = LogName.ACCESS if access else LogName.UNSPECIFIED
    if target.exists() and any(target.iterdir()):
        raise Stop(
            f"{target} is not empty.",
            safe="Nothing was written.",
            next="Name a new folder; an export is never mixed with an older one.",
            code=Code.WRONG_USAGE,
        )
    with options.client_of(server, folder, token_file, role) as client:
        try:
            entries = client.entries(log=log, purpose=ReadPurpose.EXPORT)
            made = write_mirror(entries, target, client.checkpoint(log=log).note)
        except MirrorUnreadable as fault:
            raise Stop(
                f"{fault}.",
                safe=f"What was copied is in {target}, without a checkpoint.",
                next="Keep it and tell the operator: the server's own answers contradict.",
                code=Code.FAILED,
            ) from None
    screen.final({"origin": made.origin, "size": made.size, "folder": str(target)})
    screen.say(f"{made.origin}: {made.size:,} entries are in {target}.")


def _receipt_of(source: Path, index: int) -> str:
    try:
        return Mirror(source).receipt(index)
    except MirrorUnreadable as fault:
        raise Stop(
            f"{fault}.",
            safe="Nothing was written.",
            next="Name a folder made by `ledger export`, and an entry that it holds.",
            code=Code.UNVERIFIABLE,
        ) from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as fault:
        raise Stop(
            f"{path} cannot be written: {fault.strerror}.",
            safe="Nothing was changed on the server.",
            code=Code.WRONG_USAGE,
        ) from None


checkpoint.callback(help=taught(get_checkpoint))(get_checkpoint)
checkpoint.command("pin", help=taught(pin))(pin)
