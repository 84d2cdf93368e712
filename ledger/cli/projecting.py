"""`ledger projections check|rebuild`: read models compared with the log, in a server's process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import typer
from rich.progress import Progress

from ledger.cli import options
from ledger.cli.rows import Column
from ledger.cli.screen import Screen, table
from ledger.cli.serving import require_server_parts
from ledger.cli.stops import Code, Stop
from ledger.cli.teaching import taught

projections = typer.Typer(
    help="Compare the tables that answers are read from with the log itself.",
    no_args_is_help=True,
)

_FOUND: Final = "table"


def check(
    folder: options.Folder = options.DEFAULT_FOLDER,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Fold every log anew and name each row of runs, steps, keys and unknowns that differs.

    Changes nothing and may be run beside a server. Exit code 0 if all is equal, 5 if something
    differs. How far renewals moved a lease and the bodies of run states stand in no log and are
    left out. No payload is shown.

    [bold]Examples[/bold]

      ledger projections check
      ledger projections check --data /var/lib/ledger --json
    """
    _mend("check", folder, options.screen_of(machine, no_color))


def rebuild(
    folder: options.Folder = options.DEFAULT_FOLDER,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Replace every row that differs from the log, in one transaction for each log.

    May be run beside a server: its appends wait meanwhile. After a crash in the middle the tables
    are as they were before. Exit code 0 when the tables say what the log says.

    [bold]Examples[/bold]

      ledger projections rebuild
      LEDGER_STORE=postgres LEDGER_POSTGRES_DSN=postgresql://... ledger projections rebuild
    """
    _mend("rebuild", folder, options.screen_of(machine, no_color))


for _name, _command in (("check", check), ("rebuild", rebuild)):
    projections.command(_name, help=taught(_command))(_command)


def _mend(action: str, folder: Path, screen: Screen) -> None:
    require_server_parts(f"projections {action}")
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "server", "projections", action],
        env={**os.environ, "LEDGER_DATA": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert child.stdout is not None  # noqa: S101 - it was started with a pipe
    with child, Progress(console=screen.err, transient=True) as bars:
        task = bars.add_task("entries", total=None, visible=not screen.machine)
        said = []
        for line in child.stdout:
            one = json.loads(line)
            if "done" in one:
                bars.update(task, total=one["size"], completed=one["done"])
                continue
            said.append(one)
    if child.returncode not in (Code.DONE, Code.FAILED) or not said:
        raise Stop(
            f"`projections {action}` ended with status {child.returncode}.",
            safe="The tables are as they were.",
            next="Its words stand above: the store has to exist and its keys have to be there.",
        )
    _tell(screen, action, said)
    if child.returncode:
        sys.exit(Code.FAILED)


def _tell(screen: Screen, action: str, said: list[dict[str, object]]) -> None:
    final = said.pop()
    for one in said:
        screen.item(one)
    screen.final(final)
    if not said:
        screen.say("Every row says what the log says.")
        return
    rows = table(Column("table"), Column("row", folds=True), Column("what", folds=True, below=True))
    for one in said:
        key, columns = one["key"], one["columns"]
        what = "is missing" if one["missing"] else "is in no log" if one["too_many"] else ""
        names = ", ".join(map(str, columns)) if isinstance(columns, list) else ""
        place = " ".join(map(str, key)) if isinstance(key, list) else ""
        rows.add(str(one[_FOUND]), place, what or f"differs in {names}")
    screen.say(rows, "")
    if action == "check":
        screen.say("`ledger projections rebuild` puts these right. The log itself is not touched.")
    else:
        screen.say("These were put right.")
