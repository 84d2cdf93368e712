"""`ledger demo`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import typer

from ledger.cli import options
from ledger.cli.demo.account import Account
from ledger.cli.demo.actions import (
    ActionsUnreadable,
    AgentRun,
    default_actions,
    read_actions,
    under_prefix,
    write_actions,
)
from ledger.cli.demo.auditor import Auditor
from ledger.cli.demo.children import Launch
from ledger.cli.demo.director import Cast, Director, exit_code
from ledger.cli.demo.place import Place
from ledger.cli.demo.shop import Shop
from ledger.cli.demo.stage import Stage
from ledger.cli.demo.table import account_text, next_commands
from ledger.cli.screen import Screen
from ledger.cli.serving import ServerChild, bare_environment, require_server_parts
from ledger.cli.stops import Code, Stop
from ledger.client import LedgerError

_SHOP_S_MAX: Final = 6.0
"""How long all calls to the shop may take together, in seconds: a large file stays quick."""
_LATENCY_MS_MAX: Final = 25.0


def demo(
    actions: Annotated[
        Path | None,
        typer.Option(
            "--actions",
            metavar="FILE",
            help="Runs to work through, one JSON object a line. Unset: twelve small orders.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Decides actions and where the runtime dies.")
    ] = 1,
    below: Annotated[
        Path,
        typer.Option("--folder", metavar="FOLDER", help="Where the demo's new folder is made."),
    ] = Path("ledger-demo"),
    server: Annotated[
        str,
        typer.Option(
            "--server",
            metavar="HOST:PORT",
            help="Use a server that runs, with the tokens of --data. Unset: one of its own.",
        ),
    ] = "",
    folder: options.Folder = options.DEFAULT_FOLDER,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """See an agent runtime killed again and again, and every effect happen exactly once.

    Starts a server with a new folder, and a runtime in a process of its own that places orders in a
    small shop. The shop recognises nothing and counts everything. The runtime is killed by SIGKILL
    before a start, inside a tool, and after a tool before its result is recorded; it is started
    again and resumes. What nobody can know is listed as unknown and settled by a confirmer that
    asks the shop.

    Exit code 0 only if no effect happened twice or never, none that was settled as executed is
    missing in the shop, and the log verifies against checkpoints kept outside the server's folder.

    [bold]Examples[/bold]

      ledger demo
      ledger demo --seed 7
      ledger demo --actions retail.jsonl --json | tail -1
    """
    screen = options.screen_of(machine, no_color)
    agents = _agents(actions, seed)
    if not server:
        require_server_parts("demo")
    now = datetime.now().astimezone()
    place = Place.new(below, now=now)
    if server:
        agents = under_prefix(agents, f"demo-{now:%Y%m%d-%H%M%S}/")
    write_actions(place.actions, agents)
    with _stopping(screen), ExitStack() as stack:
        if server:
            account, auditor = _directed(
                stack, screen, place, agents, seed, server, folder / "tokens"
            )
        else:
            child = _server_of_ones_own(stack, place)
            try:
                account, auditor = _directed(
                    stack, screen, place, agents, seed, child.address, place.tokens
                )
            except (Stop, LedgerError):
                ended = child.ended(place.server_log)
                if ended is not None:
                    raise ended from None
                raise
        screen.say("", account_text(account), "")
        screen.say(next_commands(place.root, account, auditor.key_file), "")
    screen.final(account.as_json())
    code = exit_code(account)
    if code is not Code.DONE:
        sys.exit(code)


def _directed(
    stack: ExitStack,
    screen: Screen,
    place: Place,
    agents: list[AgentRun],
    seed: int,
    address: str,
    tokens: Path,
) -> tuple[Account, Auditor]:
    count = sum(len(agent.actions) for agent in agents)
    shop = Shop(place.shop)
    stack.callback(shop.close)
    confirmer, reader = (
        stack.enter_context(options.client_of(address, tokens.parent, tokens / role, role))
        for role in ("confirmer", "admin")
    )
    launch = Launch(
        server=address,
        token_file=tokens / "runtime",
        actions=place.actions,
        shop=place.shop,
        latency_ms=min(_LATENCY_MS_MAX, _SHOP_S_MAX * 1000 / count),
        log=place.runtime_log,
    )
    auditor = Auditor(held=place.held, log=place.log)
    with Stage(screen, total=count) as stage:
        director = Director(
            agents=agents,
            seed=seed,
            launch=launch,
            cast=Cast(confirmer, reader, shop),
            auditor=auditor,
            stage=stage,
        )
        stage.tell(
            "begins",
            f"{count} actions in {len(agents)} runs; server {address}, everything in {place.root}",
            actions=count,
            server=address,
            folder=str(place.root),
        )
        return director.direct(), auditor


def _server_of_ones_own(stack: ExitStack, place: Place) -> ServerChild:
    """A server with a new data folder, stopped with the stack."""
    log = stack.enter_context(place.server_log.open("ab"))
    environment = bare_environment() | {
        "LEDGER_DATA": str(place.server),
        "LEDGER_LISTEN": "127.0.0.1:0",
        "LEDGER_LOG_FORMAT": "json",
    }
    child = ServerChild.start(environment, log=log, log_path=place.server_log)
    stack.callback(child.stop)
    return child


def _agents(actions: Path | None, seed: int) -> list[AgentRun]:
    if actions is None:
        return default_actions(seed)
    try:
        return read_actions(actions)
    except (OSError, ActionsUnreadable, UnicodeDecodeError) as fault:
        raise Stop(
            f"the actions cannot be read: {fault}",
            safe="Nothing was started.",
            next='One run a line: {"run": "r1", "steps": [{"tool": "refund", '
            '"effect": "NON_IDEMPOTENT_WRITE", "arguments": {"order": 7}}]}',
            code=Code.WRONG_USAGE,
        ) from None


@contextmanager
def _stopping(screen: Screen) -> Iterator[None]:
    """Every way of being told to stop ends the children first; then the exit code says so."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    except KeyboardInterrupt:
        raise Stop(
            "interrupted.",
            safe="Runtime and server were stopped; what was acknowledged is durable.",
            next="`ledger demo` begins anew in a folder of its own.",
            code=Code.INTERRUPTED,
        ) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
