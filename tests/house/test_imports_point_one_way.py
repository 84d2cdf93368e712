"""Import directions: `core <- store <- sequencer and use cases <- service, console, cli`.

A layer lists the rooms it may see. A module of `ledger` without a room of its own is a use case.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.house.sources import ROOT, Source, imports, parsed, sources, under

USE_CASES = "ledger (use cases)"

# The longest matching room counts; the empty room `ledger` itself holds the use cases.
ROOMS = (
    "ledger.core",
    "ledger.store",
    "ledger.v1",
    "ledger.client",
    "ledger.verify",
    "ledger.service",
    "ledger.console",
    "ledger.adapters",
    "ledger.demo",
    "ledger.cli",
)

BACK = {"ledger.core", "ledger.store", USE_CASES}

MAY_SEE: dict[str, set[str]] = {
    "ledger.core": set(),
    "ledger.v1": set(),
    "ledger.store": {"ledger.core"},
    USE_CASES: BACK,
    "ledger.client": {"ledger.core", "ledger.v1"},
    "ledger.verify": {"ledger.core"},
    "ledger.service": BACK | {"ledger.v1"},
    "ledger.console": BACK | {"ledger.v1", "ledger.client", "ledger.verify"},
    "ledger.adapters": {"ledger.client", "ledger.core", "ledger.v1"},
    "ledger.demo": {"ledger.client", "ledger.core", "ledger.v1", "ledger.verify"},
    "ledger.cli": {*ROOMS, USE_CASES},
    "projections": {"ledger.core", "ledger.store"},
}

# The composition root, and the tests' process that forks it.
SERVERS = frozenset({"server.py", "tests/support/forked_server.py"})

# What the SDK knows of the core: ids and words, argument bytes, and the checking side of proofs.
# Nothing that decides: a runtime that decided for itself would be a second ledger.
CORE_FOR_THE_CLIENT = frozenset(
    "arguments canonical checkpoint ed25519 entry errors ids merkle note note_key proof_check "
    "receipt refusals times vocabulary".split()
)

IMPURE = (
    "asyncio concurrent fcntl getpass glob http io locale logging mmap multiprocessing os pathlib "
    "platform queue random sched secrets select selectors shutil signal site socket sqlite3 ssl "
    "subprocess sys.argv sys.stdin sys.stdout sys.stderr tempfile threading time urllib "
    "uuid.uuid1 uuid.uuid4 grpc psycopg psycopg_pool structlog prometheus_client "
    "pydantic_settings typer rich"
).split()

# Calls that read the clock, make randomness or do I/O without an import that says so.
IMPURE_FUNCTIONS = {"open", "print", "input", "exec", "eval", "__import__", "uuid1", "uuid4"}
IMPURE_METHODS = {"now", "utcnow", "today", "uuid1", "uuid4", "import_module"}


def room_of(module: str) -> str | None:
    """The room a dotted name lies in; None for what is not ours."""
    for room in (*ROOMS, "projections"):
        if under(module, room):
            return room
    return USE_CASES if under(module, "ledger") else None


def against_direction(source: Source) -> Iterator[str]:
    """Imports of one file that its room may not make."""
    here = room_of(source.module)
    for place, name in imports(source):
        if name == "(relative import)":
            yield f"{place}: relative import"
        elif under(name, "server") and source.path not in SERVERS:
            yield f"{place}: server is the composition root; nobody imports it"
        elif under(name, "tests") and not _may_see_tests(source.module, name):
            yield f"{place}: {name} is a test's"
        elif here is not None:
            there = room_of(name)
            if there is not None and there != here and there not in MAY_SEE[here]:
                yield f"{place}: {here} may not see {name}"
            elif not _part_is_seen(source.module, name):
                yield f"{place}: {source.module} may not see {name}"


def _may_see_tests(module: str, name: str) -> bool:
    """Benches start real servers by the same means as tests do."""
    return under(module, "tests") or (under(module, "bench") and under(name, "tests.support"))


def _part_is_seen(module: str, name: str) -> bool:
    """Two finer rules: what the SDK sees of the core, and that checking never meets proving."""
    part = name.split(".")[2] if name.count(".") >= 2 else ""
    if not under(name, "ledger.core"):
        return True
    if under(module, "ledger.client"):
        return not part or part in CORE_FOR_THE_CLIENT
    if under(module, "ledger.verify"):
        return part != "proving"
    if module == "ledger.core.proof_check":
        return part not in {"proving", "merkle"}
    return not (module == "ledger.core.proving" and part == "proof_check")


def impurities(source: Source) -> Iterator[str]:
    """I/O, clock, randomness, environment and logging in a file of the core."""
    for place, name in imports(source):
        if any(under(name, banned) for banned in IMPURE):
            yield f"{place}: the core is pure; it may not import {name}"
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(func=ast.Name(id=called)) if called in IMPURE_FUNCTIONS:
                yield f"{source.at(node)}: the core is pure; it may not call {called}()"
            case ast.Call(func=ast.Attribute(attr=called)) if called in IMPURE_METHODS:
                yield f"{source.at(node)}: the core is pure; it may not call .{called}()"
            case _:
                pass


def test_every_import_follows_the_direction_of_its_room() -> None:
    found = [fault for source in sources() for fault in against_direction(source)]
    assert not found, "\n".join(found)


def test_the_core_does_no_io_and_reads_no_clock() -> None:
    found = [fault for source in sources("ledger/core") for fault in impurities(source)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("ledger/core/run.py", "from ledger.store import interface"),
        ("ledger/store/sqlite.py", "import ledger.sequencer"),
        ("ledger/sequencer.py", "from ledger.v1 import run_service_pb2"),
        ("ledger/sequencer.py", "from ledger.service import auth"),
        ("ledger/verify/log.py", "from ledger.store.sqlite import SqliteStore"),
        ("ledger/client/run.py", "def late():\n    from ledger.sequencer import Sequencer"),
        ("ledger/client/run.py", "from ledger.core.run import Run"),
        ("ledger/client/run.py", "from ledger.core import decide"),
        ("ledger/verify/log.py", "from ledger.core.proving import inclusion_proof"),
        ("ledger/core/proof_check.py", "from ledger.core.merkle import node_hash"),
        ("ledger/core/proving.py", "from ledger.core import proof_check"),
        ("ledger/cli/serve.py", "import projections.resume"),
        ("ledger/cli/serve.py", "import server"),
        ("ledger/client/run.py", "from . import sibling"),
        ("projections/runs.py", "from ledger.sequencer import Sequencer"),
        ("tests/unit/test_x.py", "import server"),
    ],
)
def test_an_import_against_the_direction_is_found(path: str, line: str) -> None:
    assert list(against_direction(parsed(path, line)))


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "from os import path",
        "from time import monotonic",
        "import random",
        "import sqlite3",
        "import grpc.aio",
        "import logging",
        "from uuid import uuid4",
        "import datetime\ndatetime.datetime.now()",
        "open('x')",
        "print('x')",
    ],
)
def test_an_impure_line_in_the_core_is_found(line: str) -> None:
    assert list(impurities(parsed("ledger/core/x.py", line)))


# What the `server`, `postgres` and `test` extras bring; the base install has none of it.
EXTRAS = (
    "eventsourcing pydantic pydantic_settings structlog prometheus_client grpc_health "
    "grpc_reflection jwt psycopg psycopg_pool"
)

PROBE = """
import importlib, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {banned!r}:
            raise ModuleNotFoundError("not in the base install: " + name, name=name)
        return None
sys.meta_path.insert(0, Absent())
importlib.import_module({module!r})
"""


STANDING = [
    module
    for module in ("ledger.v1", "ledger.client", "ledger.verify", "ledger.cli")
    if (ROOT / module.replace(".", "/")).exists()
]


@pytest.mark.parametrize("module", STANDING)
def test_the_base_install_is_enough_for_the_sdk_the_verifier_and_the_command(module: str) -> None:
    probe = PROBE.format(banned=set(EXTRAS.split()), module=module)
    ended = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
