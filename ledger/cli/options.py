"""Options that several commands share, and how they find the server and a token.

The token is `--token-file`, else `LEDGER_TOKEN_FILE`, else `tokens/<role>` of the data folder
(`--data`, else `LEDGER_DATA`, else ./ledger-data).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ledger.cli.screen import Screen
from ledger.client import Ledger, RetryPolicy, Settings
from ledger.client.credentials import DEFAULT_TARGET

DEFAULT_SERVER: Final = DEFAULT_TARGET
DEFAULT_FOLDER: Final = Path("ledger-data")
PATIENCE_S: Final = 10.0
"""How long a command goes on asking a server that does not answer, in seconds."""

_OUTPUT: Final = "Output"
_WHERE: Final = "Where and as whom"

Machine = Annotated[
    bool,
    typer.Option(
        "--json",
        help="One JSON object a line; the last line is final.",
        rich_help_panel=_OUTPUT,
    ),
]
NoColor = Annotated[
    bool,
    typer.Option(
        "--no-color",
        help="No colours. Also with NO_COLOR set, and where the output is no terminal.",
        rich_help_panel=_OUTPUT,
    ),
]
Server = Annotated[
    str,
    typer.Option(
        "--server",
        envvar="LEDGER_SERVER",
        metavar="HOST:PORT",
        help="The server to ask.",
        rich_help_panel=_WHERE,
    ),
]
Folder = Annotated[
    Path,
    typer.Option(
        "--data",
        envvar="LEDGER_DATA",
        metavar="FOLDER",
        help="The server's data folder; tokens are found in it.",
        rich_help_panel=_WHERE,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        envvar="LEDGER_TOKEN_FILE",
        metavar="FILE",
        help="A file that holds the token to call with.",
        rich_help_panel=_WHERE,
    ),
]
Who = Annotated[
    str,
    typer.Option(
        "--as",
        metavar="ROLE",
        help="Whose token of the data folder: runtime, reviewer, confirmer or admin.",
        rich_help_panel=_WHERE,
    ),
]
Utc = Annotated[
    bool,
    typer.Option(
        "--utc",
        help="Times in UTC instead of this machine's time zone.",
        rich_help_panel=_OUTPUT,
    ),
]


def screen_of(machine: bool, no_color: bool) -> Screen:
    """The screen that the output options ask for."""
    return Screen.of(machine=machine, no_color=no_color)


def client_of(server: str, folder: Path, token_file: Path | None, role: str) -> Ledger:
    """A client of the named server. Raises `CredentialMissing` where no token is found."""
    return Ledger.connect(
        server,
        token_file=token_file or folder / "tokens" / role,
        settings=Settings(retry=RetryPolicy(deadline_s=PATIENCE_S)),
    )
