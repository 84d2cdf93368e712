"""How the demo ends: its account as a table, and three commands to go on with."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from ledger.cli.demo.account import Account
from ledger.cli.demo.windows import Window
from ledger.cli.screen import STYLES
from ledger.client import Verdict

_GOOD: Final = "bold green"
_BAD: Final = "bold red"


def account_text(account: Account) -> Table:
    """What happened, in numbers."""
    rows = Table(box=SIMPLE, show_header=False, pad_edge=False, show_edge=False)
    rows.add_column(overflow="fold")
    rows.add_column(justify="right")
    effects = account.effects
    rows.add_row("actions asked for", f"{account.actions:,}")
    rows.add_row("  effects that happened once", _count(effects.once, good=effects.once > 0))
    rows.add_row("  effects that never happened", _count(effects.zero, good=effects.zero == 0))
    rows.add_row(
        "  effects that happened twice", _count(effects.doubled, good=effects.doubled == 0)
    )
    rows.add_section()
    rows.add_row("runtime killed by SIGKILL", f"{account.kills.total():,}")
    for window in Window:
        if account.kills[window]:
            rows.add_row(f"  {window.words}", f"{account.kills[window]:,}")
    rows.add_section()
    rows.add_row("unknown outcomes settled", f"{len(account.settled):,}")
    rows.add_row("  executed, by the shop's receipt", f"{account.executed:,}")
    rows.add_row(
        "  not executed, then done under a new key", f"{len(account.settled) - account.executed:,}"
    )
    rows.add_row("asked again under a new name", f"{account.asked_again.total():,}")
    rows.add_row("  and told of the earlier try", _told(account))
    rows.add_section()
    if account.proof is not None:
        rows.add_row("entries in the log", f"{account.proof.size:,}")
        rows.add_row(
            "  appended each second, pauses left out", f"{account.appends_per_second:,.0f}"
        )
        rows.add_row("checkpoints held outside the server", f"{account.proof.held:,}")
        verdict = account.proof.verdict
        rows.add_row("verified offline", Text(verdict, STYLES.get(verdict, _BAD)))
    return rows


def next_commands(root: Path, account: Account, key_file: Path) -> Text:
    """Three commands that work once the demo has ended, its server included."""
    log = shlex.quote(str(root / "log"))
    shown = _worth_showing(account)
    text = Text("Go on with (each works without a server):\n", "bold")
    held = shlex.quote(str(root / "held"))
    commands = [f"ledger verify {log} --key {shlex.quote(str(key_file))} --held {held}"]
    if shown is not None:
        run, index = shown
        commands.insert(0, f"ledger show {shlex.quote(run)} --from {log}")
        commands.append(f"ledger receipt {index} --from {log}")
    text.append("\n".join(f"  {command}" for command in commands))
    return text


def _worth_showing(account: Account) -> tuple[str, int] | None:
    """The run and entry of a decision: one that led to a new key, if there is one."""
    ranked = sorted(account.settled, key=lambda each: each.verdict is not Verdict.NOT_EXECUTED)
    return (ranked[0].run, ranked[0].index) if ranked else None


def _count(number: int, *, good: bool) -> Text:
    return Text(f"{number:,}", _GOOD if good else _BAD)


def _told(account: Account) -> Text:
    told = account.asked_again["UNKNOWN"] + account.asked_again["HELD"]
    return _count(told, good=told == account.asked_again.total())
