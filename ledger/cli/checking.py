"""`ledger verify`: judge a server, an exported folder or a receipt with pinned keys."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from ledger.cli import options
from ledger.cli.screen import Screen, styled
from ledger.cli.stops import Code, Stop, stop_of
from ledger.client import HistoryRewound, LedgerError, LogName, ReadPurpose
from ledger.core.receipt import HEADER as RECEIPT_HEADER
from ledger.verify import (
    FolderSource,
    Judgement,
    LogSource,
    Policy,
    PolicyUnreadable,
    Report,
    read_policy,
    verify_log,
    verify_receipt_file,
)
from ledger.verify.log import EntriesSource

_ROLE: Final = "admin"
_FINDINGS_SHOWN: Final = 20
_FILE_LENGTH_MAX: Final = 64 << 20
_AGAINST: Final = "What you hold"
_CHECKPOINTS: Final = "*.checkpoint"

Tell = Callable[[int, int], None]
"""Told (entries done, entries in all)."""


Target = Annotated[
    Path | None,
    typer.Argument(
        metavar="TARGET",
        help="An exported folder or a receipt's file. Left out: the server itself.",
    ),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="KEY|FILE",
        help="A verifier key that you pinned, or a policy file of such keys; may be repeated.",
        rich_help_panel=_AGAINST,
    ),
]
Held = Annotated[
    list[Path] | None,
    typer.Option(
        "--held",
        metavar="FILE|FOLDER",
        help="Checkpoints that you took before, or a folder of them; may be repeated.",
        rich_help_panel=_AGAINST,
    ),
]
Receipts = Annotated[
    list[Path] | None,
    typer.Option(
        "--receipt",
        metavar="FILE",
        help="A receipt that you have; may be repeated.",
        rich_help_panel=_AGAINST,
    ),
]
AtLeast = Annotated[
    int | None,
    typer.Option(
        "--at-least",
        metavar="SIZE",
        help="How many entries the log had when you last looked.",
        rich_help_panel=_AGAINST,
    ),
]


def verify(
    target: Target = None,
    key: Keys = None,
    held: Held = None,
    receipts: Receipts = None,
    at_least: AtLeast = None,
    access: Annotated[
        bool, typer.Option("--access", help="Judge the server's access log instead of its log.")
    ] = False,
    server: options.Server = options.DEFAULT_SERVER,
    folder: options.Folder = options.DEFAULT_FOLDER,
    token_file: options.TokenFile = None,
    role: options.Who = _ROLE,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Verify a log with keys that you pinned: every byte is hashed anew, nothing is believed.

    Needs no server for a folder or a receipt. A key must reach you by another way than the log
    (`ledger keys show` on the server's machine). Without something that you hold from before, a log
    cannot be shown to be complete.

    [bold]Verdicts[/bold]

      0  VERIFIED           all of it, up to the size and time it names
      0  VERIFIED_REDACTED  the same; named payloads are lawfully erased
      3  INCOMPLETE         what is here is sound, but there may be more
      4  UNVERIFIABLE       no pinned key, or nothing to verify
      5  FAILED             tampering or loss; every finding is listed

    [bold]Examples[/bold]

      ledger verify ./log --key audit.key --held 2026-11-30.checkpoint
      ledger verify invoice.tlog-proof --key audit.key
      ledger verify --key audit.key --at-least 1284 --json
      ledger verify --access --key access.key
    """
    screen = options.screen_of(machine, no_color)
    policy = _policy(key or [])
    notes = [_bytes(path) for path in _checkpoints(held or [])]
    known = [_bytes(path) for path in receipts or []]

    def judge(source: LogSource) -> Report:
        with _progress(screen) as tell:
            return verify_log(
                source,
                policy=policy,
                held=notes,
                receipts=known,
                at_least=at_least,
                progress=tell,
            )

    if target is None:
        log = LogName.ACCESS if access else LogName.UNSPECIFIED
        report = _of_server(server, folder, token_file, role, log, judge)
    elif target.is_dir():
        report = judge(FolderSource(target))
    else:
        report = _of_file(target, policy)
    screen.final(report.as_json())
    _print(screen, report)
    sys.exit(report.verdict.exit_code)


def _of_server(
    server: str,
    folder: Path,
    token_file: Path | None,
    role: str,
    log: LogName,
    judge: Callable[[LogSource], Report],
) -> Report:
    """Judge what a server answers. Its silence or refusal leaves nothing to verify."""
    try:
        with options.client_of(server, folder, token_file, role) as client:
            note = client.checkpoint(log=log).note.encode("utf-8")
            read = client.entries(log=log, purpose=ReadPurpose.VERIFY)
            entries = (entry.entry for entry in read)
            return judge(EntriesSource(note, entries))
    except LedgerError as error:
        stop = stop_of(error)
        if stop.code not in (Code.WRONG_USAGE, Code.NO_CREDENTIAL):
            code = Code.FAILED if isinstance(error, HistoryRewound) else Code.UNVERIFIABLE
            stop = Stop(stop.what, stop.safe, stop.next, code, stop.reason)
        raise stop from error


def _of_file(path: Path, policy: Policy | None) -> Report:
    octets = _bytes(path, missing=Code.UNVERIFIABLE)
    if octets and not octets.startswith(RECEIPT_HEADER.encode("ascii")):
        raise Stop(
            f"{path} is neither a receipt nor a folder of tiles.",
            safe="Nothing was judged.",
            next="Name a folder made by `ledger export` or a file made by `ledger receipt`.",
            code=Code.UNVERIFIABLE,
        )
    return verify_receipt_file(octets, policy=policy)


def _policy(keys: Sequence[str]) -> Policy | None:
    """What the auditor pinned; None where he pinned nothing."""
    if not keys:
        return None
    texts = [_bytes(Path(key)).decode("utf-8") if Path(key).exists() else key for key in keys]
    try:
        return read_policy("\n".join(texts))
    except (PolicyUnreadable, UnicodeDecodeError) as fault:
        raise Stop(
            f"the pinned key cannot be read: {fault}",
            safe="Nothing was judged.",
            next="A key is name+hash+base64, as `ledger keys show` prints it; or name its file.",
            code=Code.WRONG_USAGE,
        ) from None


def _checkpoints(given: Sequence[Path]) -> Iterator[Path]:
    for path in given:
        if not path.is_dir():
            yield path
            continue
        inside = sorted(path.glob(_CHECKPOINTS))
        if not inside:
            raise Stop(
                f"there is no checkpoint ({_CHECKPOINTS}) in {path}.",
                safe="Nothing was judged.",
                next="Name the files themselves.",
                code=Code.WRONG_USAGE,
            )
        yield from inside


def _bytes(path: Path, *, missing: Code = Code.WRONG_USAGE) -> bytes:
    try:
        with path.open("rb") as file:
            octets = file.read(_FILE_LENGTH_MAX + 1)
    except OSError as fault:
        raise Stop(
            f"{path} cannot be read: {fault.strerror}.",
            safe="Nothing was judged.",
            next="Check the name.",
            code=missing,
        ) from None
    if len(octets) > _FILE_LENGTH_MAX:
        raise Stop(f"{path} is too long to be what it should be.", code=Code.UNVERIFIABLE)
    return octets


@contextmanager
def _progress(screen: Screen) -> Iterator[Tell | None]:
    """A bar on a terminal, nothing elsewhere."""
    if screen.machine or not screen.err.is_terminal:
        yield None
        return
    bar = Progress(
        TextColumn("hashing"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        console=screen.err,
        transient=True,
    )
    task = bar.add_task("", total=None)
    with bar:
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _print(screen: Screen, report: Report) -> None:
    word, _, rest = report.line().partition(report.verdict.value)
    screen.say(Text.assemble(word, styled(report.verdict.value), rest))
    facts = (
        ("scope", report.scope),
        ("log", report.origin),
        ("root", report.root.hex()),
        ("signed by", ", ".join(report.signed_by)),
        ("runs", _runs(report)),
    )
    screen.say(*(Text.assemble((f"  {name:<10}", "dim"), text) for name, text in facts if text))
    shown = report.findings[:_FINDINGS_SHOWN]
    screen.say(*(Text(f"  {finding}", "red") for finding in shown))
    hidden = len(report.findings) - len(shown) + sum(n for _, n in report.findings_beyond)
    if hidden:
        screen.say(f"  and {hidden:,} findings more (--json lists them)")
    if report.verdict is not Judgement.FAILED and report.not_proven:
        screen.say(Text("Not proven:", "bold"))
        screen.say(*(f"  - {each}" for each in report.not_proven))


def _runs(report: Report) -> str:
    if not report.runs:
        return ""
    return f"{report.runs:,}" + (f", {report.runs_open:,} of them open" if report.runs_open else "")
