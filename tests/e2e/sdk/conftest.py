"""A real server with the SDK's own clients, verified entry by entry when the test ends."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ledger.client import AsyncLedger, Ledger, RetryPolicy, Settings
from tests.support.checkouts import ROOT
from tests.support.followed_log import followed_log
from tests.support.server_process import LedgerServer
from tests.support.whole_log import verify_whole_log

_END_S = 30.0


class Place:
    """A server, clients of it as any of its principals, and names that no other test has."""

    def __init__(self, server: LedgerServer, ends: ExitStack) -> None:
        self.server = server
        self._ends = ends
        self._own = secrets.token_hex(4)
        self.r1 = f"r1-{self._own}"
        self.r2 = f"r2-{self._own}"
        self.key = f"order-{self._own}"

    def named(self, name: str) -> str:
        """The name, made this test's own."""
        return f"{name}-{self._own}"

    def token_file(self, principal: str) -> Path:
        """Where a principal's token stands."""
        return self.server.folder / "tokens" / principal

    def client(self, principal: str = "runtime", *, deadline_s: float = 30.0) -> Ledger:
        """A client whose calls give up after `deadline_s`."""
        client = Ledger.connect(
            self.server.address,
            token_file=self.token_file(principal),
            settings=settings(deadline_s),
        )
        self._ends.callback(client.close)
        return client

    def async_client(self, principal: str = "runtime", *, deadline_s: float = 30.0) -> AsyncLedger:
        """The same for asyncio; the test closes it."""
        return AsyncLedger.connect(
            self.server.address,
            token_file=self.token_file(principal),
            settings=settings(deadline_s),
        )

    def agent(self, act: str, run: str) -> Agent:
        """Another process that drives a run; see `agent.py`."""
        agent = Agent(self.server.address, self.token_file("runtime"), act, run, self.key)
        self._ends.callback(agent.close)
        return agent

    def events(self, run: str) -> list[dict[str, Any]]:
        """The events of a run, as its entries hold them."""
        entries = self.client("admin").run_entries(run)
        return [json.loads(entry.entry)["event"] for entry in entries]

    def types(self, run: str) -> list[str]:
        """The types of a run's events."""
        return [event["type"] for event in self.events(run)]


class Agent:
    """A process that drives a run and says each thing it did in a line."""

    def __init__(self, *arguments: str | Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.sdk.agent", *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def says(self) -> str:
        """Its next line; empty once it ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def go_on(self) -> None:
        """Let it go on from where it waits."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill it where it stands."""
        self._process.kill()
        self._process.wait(timeout=_END_S)

    def close(self) -> None:
        """Leave no process and no pipe behind."""
        if self._process.poll() is None:
            self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def settings(deadline_s: float) -> Settings:
    """Settings whose calls give up after `deadline_s`."""
    return Settings(
        retry=RetryPolicy(deadline_s=deadline_s, try_s=min(10.0, deadline_s)),
        best_effort=RetryPolicy(deadline_s=0.5, try_s=0.5),
        leaving=RetryPolicy(deadline_s=5.0, try_s=5.0),
    )


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerServer]:
    """The server on SQLite that the SDK's tests of this process share."""
    server = LedgerServer(tmp_path_factory.mktemp("server-sdk"))
    try:
        yield server.start()
        verify_whole_log(server)
    finally:
        server.close()


@pytest.fixture
def place(shared_server: LedgerServer) -> Iterator[Place]:
    """The shared server; what is new in its log is verified after the test."""
    with ExitStack() as ends:
        yield Place(shared_server, ends)
        followed_log(shared_server).verify_new()


@pytest.fixture
def own_place(tmp_path: Path) -> Iterator[Place]:
    """A server that the test may kill and start again; its whole log is verified after the test."""
    with ExitStack() as ends:
        server = LedgerServer(tmp_path / "server")
        ends.callback(server.close)
        yield Place(server.start(), ends)
        verify_whole_log(server)
