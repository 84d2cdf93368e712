"""The SDK, blocking and asyncio, while its line is cut or its server stands still or dies.

No body runs without an acknowledged EXECUTE, none runs twice, and what is not acknowledged is said
so. What the ledger then says of the step is UNKNOWN or what really came of it, never FAILED.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledger.client import (
    AuditNotRecorded,
    ForkedProcess,
    HeldByAnother,
    LedgerUnavailable,
    OutcomeUnknown,
    RunStatus,
    StepState,
)
from ledger.client.words import Durability
from tests.crash.mortal_server import MortalServer, Window
from tests.crash.withholding_proxy import WithholdingProxy
from tests.e2e.sdk.agent import PAY
from tests.e2e.sdk.conftest import Place, settings
from tests.e2e.sdk.either import KINDS, Either, Kind, connected
from tests.support.nursery import Nursery
from tests.support.whole_log import verify_whole_log

DEADLINE_S = 1.5
AT_COMMIT = Window(1, "before")
OTHER = replace(PAY, step="s2", arguments={"amount": 13})


class Line:
    """A client of either kind whose line to the server the test holds in its hands."""

    def __init__(self, kind: Kind, place: Place, proxy: WithholdingProxy) -> None:
        self.kind = kind
        self.place = place
        self.proxy = proxy
        self.run = place.named(f"r1-{kind}")
        self.bodies: list[int] = []

    def client(self) -> AbstractAsyncContextManager[Either]:
        """A client whose calls give up after a second."""
        token = self.place.server.token("runtime")
        return connected(self.kind, self.proxy.address, token=token, settings=settings(DEADLINE_S))

    def state(self) -> StepState:
        """What the ledger says of the step."""
        (step,) = self.place.client("reviewer").get_run(self.run).steps
        return step.state

    def types(self) -> list[str]:
        """The types of the run's events."""
        return self.place.types(self.run)

    async def refused_anew(self) -> None:
        """A later process resumes the run and is told to stop; the tool is not run again."""
        with pytest.raises(OutcomeUnknown):
            await self.resumed()

    async def resumed(self) -> None:
        """Resumes the run and asks for its step."""
        async with self.client() as client, client.block("resume", self.run, holder="heir") as run:
            await self.body(run)

    async def body(self, run: Either) -> Any:
        """The tool once more, if it may run."""
        async with run.block("effect", "s1") as effect:
            if effect.show("execute"):
                self.bodies.append(effect.show("attempt"))
                return await effect.do("succeeded", {"paid": 12})
            return effect.show("result").json()


@pytest.fixture(params=KINDS)
def line(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> Iterator[Line]:
    with WithholdingProxy(tmp_path / "withheld", lambda: place.server.address) as proxy:
        yield Line(request.param, place, proxy)


@pytest.mark.long
async def test_a_start_that_the_server_never_heard_runs_nothing(line: Line) -> None:
    """GRA-01 and ACK-04: the line is lost before the start; the step stays planned."""
    async with line.client() as client, client.block("run", line.run, holder="shop") as run:
        await run.do("plan", [PAY])
        line.proxy.withhold("request")
        with pytest.raises(LedgerUnavailable, match="Nothing may be executed"):
            await line.body(run)
        line.proxy.cut()
        assert line.state() is StepState.PLANNED
        await line.body(run)
    assert line.bodies == [1]
    assert line.types().count("step.started") == 1


async def test_a_start_whose_answer_never_comes_runs_nothing_and_ends_unknown(line: Line) -> None:
    """GRA-01: it was committed, and nobody may act on what he was not told."""

    async def drive() -> None:
        async with line.client() as client, client.block("run", line.run, holder="shop") as run:
            await run.do("plan", [PAY])
            line.proxy.withhold("answer")
            try:
                await line.body(run)
            finally:
                line.proxy.cut()

    with pytest.raises(LedgerUnavailable) as caught:
        await drive()
    assert caught.value.durability is Durability.MAYBE_COMMITTED
    assert line.bodies == []
    assert line.types()[-3:] == ["step.started", "lease.released", "step.unknown"]
    await line.refused_anew()
    assert line.bodies == []


async def test_a_start_whose_answer_was_lost_once_runs_its_body_once(line: Line) -> None:
    """GRA-01: the same request again is the same attempt."""
    async with line.client() as client, client.block("run", line.run, holder="shop") as run:
        await run.do("plan", [PAY])
        line.proxy.withhold("answer")
        cutting = asyncio.get_running_loop().run_in_executor(None, cut_once_heard, line.proxy)
        await line.body(run)
        await cutting
    assert line.bodies == [1]
    assert line.types().count("step.started") == 1


def cut_once_heard(proxy: WithholdingProxy) -> None:
    """Cuts the line after the server answered and nobody heard it."""
    assert proxy.swallowed.wait(10)
    proxy.cut()


@pytest.mark.long
async def test_a_report_whose_answer_never_comes_is_said_and_stands_in_the_ledger(
    line: Line,
) -> None:
    """GRA-01: AuditNotRecorded, maybe committed; sent again it is the same report."""
    async with line.client() as client, client.block("run", line.run, holder="shop") as run:
        await run.do("plan", [PAY])
        async with run.block("effect", "s1") as effect:
            line.proxy.withhold("answer")
            with pytest.raises(AuditNotRecorded) as caught:
                await effect.do("succeeded", {"paid": 12})
            line.proxy.cut()
            assert caught.value.durability is Durability.MAYBE_COMMITTED
            assert line.state() is StepState.SUCCEEDED
            assert (await effect.do("resend")).state is StepState.SUCCEEDED
    assert line.types().count("step.completed") == 1
    assert line.types()[-1] == "run.closed"


async def test_a_report_that_the_server_never_heard_ends_unknown_and_not_failed(
    line: Line,
) -> None:
    """GRA-01: the run stays open, and the effect is not done again."""

    async def drive() -> None:
        async with line.client() as client, client.block("run", line.run, holder="shop") as run:
            await run.do("plan", [PAY])
            async with run.block("effect", "s1") as effect:
                line.bodies.append(effect.show("attempt"))
                line.proxy.withhold("request")
                try:
                    await effect.do("succeeded", {"paid": 12})
                finally:
                    line.proxy.cut()

    with pytest.raises(AuditNotRecorded):
        await drive()
    assert line.types()[-3:] == ["step.started", "lease.released", "step.unknown"]
    await line.refused_anew()
    assert line.bodies == [1]


async def test_a_line_cut_in_the_middle_of_a_report_leaves_one_report(line: Line) -> None:
    async with line.client() as client, client.block("run", line.run, holder="shop") as run:
        await run.do("plan", [PAY])
        async with run.block("effect", "s1") as effect:
            line.proxy.withhold("answer")
            cutting = asyncio.get_running_loop().run_in_executor(None, cut_once_heard, line.proxy)
            await effect.do("succeeded", {"paid": 12})
            await cutting
    assert line.types().count("step.completed") == 1
    assert line.types()[-1] == "run.closed"


async def test_a_forked_child_inside_a_body_reports_nothing_of_its_parents(line: Line) -> None:
    """GRL-03: the attempt is the parent's; leaving the body in the child records nothing."""
    async with line.client() as client, client.block("run", line.run, holder="shop") as run:
        await run.do("plan", [PAY])
        async with run.block("effect", "s1") as effect:
            assert await in_a_child(effect) == "ForkedProcess"
            await effect.do("succeeded", {"paid": 12})
    assert line.types()[-2:] == ["step.completed", "run.closed"]


async def in_a_child(effect: Either) -> str:
    """What a forked child gets for a report of the attempt."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "reported"
        try:
            await effect.do("succeeded", {"paid": 13})
        except ForkedProcess:
            said = "ForkedProcess"
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    return said_by(pid, reading)


def said_by(child: int, reading: int) -> str:
    """What a child wrote before it ended."""
    with os.fdopen(reading, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(child, 0)
    return said


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery("tests.crash.dying_server")
    yield made
    made.close()


@pytest.fixture
def mortal(nursery: Nursery, tmp_path: Path) -> Iterator[MortalServer]:
    server = MortalServer(nursery, tmp_path / "server", f"sqlite://{tmp_path}/ledger.db")
    server.start()
    yield server
    server.close()


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
async def test_a_deadline_that_passes_during_the_commit_is_never_taken_for_an_answer(
    kind: Kind, mortal: MortalServer
) -> None:
    """GRA-01: the server waits at COMMIT while the client gives up, of the start and the report."""
    token, patience = mortal.token("runtime"), settings(DEADLINE_S)
    async with (
        connected(kind, mortal.address, token=token, settings=patience) as client,
        client.block("run", "r1", holder="shop") as run,
    ):
        await run.do("plan", [PAY])
        mortal.arm("wait", AT_COMMIT, kind="commit")
        with pytest.raises(LedgerUnavailable) as caught:
            await run.block("effect", "s1").__aenter__()
        assert caught.value.durability is Durability.MAYBE_COMMITTED
        go_on(mortal)
        with pytest.raises(HeldByAnother):
            await run.block("effect", "s1").__aenter__()
        await run.do("plan", [OTHER])
        async with run.block("effect", "s2") as effect:
            mortal.arm("wait", AT_COMMIT, kind="commit")
            with pytest.raises(AuditNotRecorded) as lost:
                await effect.do("succeeded", {"paid": 12})
            assert lost.value.durability is Durability.MAYBE_COMMITTED
            go_on(mortal)
            assert (await effect.do("resend")).state is StepState.SUCCEEDED
        await run.do("stop", "enough")
    verify_whole_log(mortal)


def go_on(mortal: MortalServer) -> None:
    """Lets the server go on from its COMMIT."""
    with mortal.waiting():
        pass


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_dies_inside_a_body_and_comes_back_takes_the_report_once(
    kind: Kind, mortal: MortalServer
) -> None:
    """GRL-03: killed while the body runs; the same client goes on without a second attempt."""
    token = mortal.token("runtime")
    async with connected(kind, mortal.address, token=token, settings=settings(20.0)) as client:
        async with client.block("run", "r1", holder="shop") as run:
            await run.do("plan", [PAY])
            async with run.block("effect", "s1") as effect:
                mortal.kill()
                mortal.start()
                assert (await effect.do("succeeded", {"paid": 12})).state is StepState.SUCCEEDED
            mortal.kill()
            mortal.start()
        change = await client.do("get_run", "r1")
    assert change.run.status is RunStatus.COMPLETED
    kinds = [entry.event["type"] for entry in verify_whole_log(mortal)]
    assert [kinds.count(kind) for kind in ("step.started", "step.completed", "run.closed")] == [
        1,
        1,
        1,
    ]
