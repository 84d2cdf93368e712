"""`ledger serve`, `ledger health` and `ledger version`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib import metadata
from types import FrameType
from typing import Annotated, Final

import grpc
import typer

from ledger.cli import options
from ledger.cli.serving import ServerChild, require_server_parts
from ledger.cli.stops import Code, Stop

DISTRIBUTION: Final = "agent-effects-ledger"
_CHECK: Final = "/grpc.health.v1.Health/Check"
_SERVING: Final = b"\x08\x01"  # HealthCheckResponse{status: SERVING}, as the wire has it
_HEALTH_S: Final = 5.0
_PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

Listen = Annotated[
    str,
    typer.Option(
        "--listen",
        envvar="LEDGER_LISTEN",
        metavar="HOST:PORT",
        help="Where to serve. Port 0 takes a free one.",
    ),
]


def serve(
    listen: Listen = options.DEFAULT_SERVER,
    folder: options.Folder = options.DEFAULT_FOLDER,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Serve a ledger from a data folder, until it is told to stop.

    Makes what is missing at the first start: the store and its tables, keys, and one token each for
    runtime, reviewer, confirmer and admin. Every other setting is a variable LEDGER_*. SIGTERM and
    Ctrl-C are passed on: the server works off what it accepted, then ends.

    [bold]Examples[/bold]

      ledger serve
      ledger serve --data /var/lib/ledger --listen 127.0.0.1:7420
      LEDGER_STORE=postgres LEDGER_POSTGRES_DSN=postgresql://... ledger serve
    """
    require_server_parts("serve")
    screen = options.screen_of(machine, no_color)
    environment = {**os.environ, "LEDGER_DATA": str(folder), "LEDGER_LISTEN": listen}
    if machine:
        environment.setdefault("LEDGER_LOG_FORMAT", "json")
    asked: list[int] = []
    child: ServerChild | None = None

    def pass_on(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        if child is not None:
            child.signal(signal.SIGTERM)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        child = ServerChild.start(environment, log=sys.stderr.buffer)
        if asked:
            child.signal(signal.SIGTERM)
        screen.item({"event": "serving", "address": child.address, "pid": child.pid})
        screen.say(f"Serving on {child.address} from {folder}. Ctrl-C stops it.")
        status = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    screen.final({"event": "ended", "status": status})
    if status != 0:
        raise Stop(
            f"the server ended with status {status}.",
            safe="What it acknowledged is durable.",
            next="Its last words stand above; `ledger serve` starts it again.",
        )


def health(
    server: options.Server = options.DEFAULT_SERVER,
    machine: options.Machine = False,
    no_color: options.NoColor = False,
) -> None:
    """Ask a server whether it serves. Needs no token. Exit code 0 if it does, 7 if not.

    [bold]Examples[/bold]

      ledger health
      ledger health --server 10.0.0.5:7420 --json
    """
    screen = options.screen_of(machine, no_color)
    with grpc.insecure_channel(server, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            check: Callable[..., bytes] = channel.unary_unary(_CHECK)
            answer = check(b"", timeout=_HEALTH_S)
        except grpc.RpcError as error:
            raise Stop(
                f"{server} does not answer ({error.code().name}: {error.details()}).",
                safe="Asking changed nothing.",
                next="Check the address, or start a server: ledger serve --data FOLDER",
                code=Code.UNAVAILABLE,
            ) from error
    serving = answer == _SERVING
    if not serving:
        raise Stop(
            f"{server} answers, but does not serve: it cannot promise durability, or is stopping.",
            safe="It acknowledges nothing while it says so.",
            next="Look into the server's log: a full disk, an unreachable database, or a log that "
            "was put back to an older state.",
            code=Code.UNAVAILABLE,
        )
    screen.final({"server": server, "serving": True})
    screen.say(f"{server} serves.")


def version(machine: options.Machine = False, no_color: options.NoColor = False) -> None:
    """Say which version this is, and of Python and gRPC.

    [bold]Example[/bold]

      ledger version --json
    """
    screen = options.screen_of(machine, no_color)
    own = metadata.version(DISTRIBUTION)
    python = ".".join(str(part) for part in sys.version_info[:3])
    screen.final({"ledger": own, "python": python, "grpc": grpc.__version__})
    screen.say(f"ledger {own} (Python {python}, gRPC {grpc.__version__})")
