"""What a confirmer is sure of is settled, once; everything else is left for a person."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.payments.provider import Provider
from ledger.client import (
    Answer,
    CannotTell,
    Confirming,
    Executed,
    Ledger,
    LeftForPerson,
    NotExecuted,
    Settled,
    Step,
    UnknownStep,
    Verdict,
    Waits,
)
from tests.support.command_line import CommandLine
from tests.support.server_process import LedgerServer
from tests.support.whole_log import verify_whole_log

_WAIT_S = 40.0
CONFIRMER = "examples.payments.confirmer:confirmer"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LedgerServer]:
    """A server whose whole log is verified after the test."""
    running = LedgerServer(tmp_path / "server").start()
    try:
        yield running
        verify_whole_log(running)
    finally:
        running.close()


@pytest.fixture
def confirmer(server: LedgerServer) -> Iterator[Ledger]:
    """The confirmer's client."""
    with Ledger.connect(server.address, token=server.token("confirmer")) as client:
        yield client


def _unknown(server: LedgerServer, confirmer: Ledger, run: str, *, timeout_s: float) -> UnknownStep:
    with (
        Ledger.connect(server.address, token=server.token()) as client,
        client.run(run, holder="agent") as driven,
    ):
        driven.plan([Step("s1", "send", "1", {"order": 1})])
        effect = driven.effect("s1", timeout_s=timeout_s)
        effect.__enter__()
        driven.stop("the_host_goes_down")
    (found,) = confirmer.unknowns(run=run)
    return found


def _kinds(server: LedgerServer, run: str) -> list[str]:
    with Ledger.connect(server.address, token=server.token("admin")) as admin:
        events = [json.loads(each.entry)["event"] for each in admin.run_entries(run)]
    return [e["body"]["kind"] for e in events if e["type"] == "evidence.attached"]


def test_a_payment_is_found_by_its_key_or_surely_absent_and_each_is_settled_once(
    server: LedgerServer, tmp_path: Path
) -> None:
    payments = tmp_path / "payments.db"
    ledger = CommandLine(
        tmp_path,
        {
            "LEDGER_SERVER": server.address,
            "LEDGER_DATA": str(server.folder),
            "PAYMENTS": str(payments),
        },
    )
    provider = Provider(payments)
    for run, dies in (("paid", "after"), ("unpaid", "before")):
        ledger.run(
            [sys.executable, "-m", "examples.payments.runtime", run, dies], code=-signal.SIGKILL
        )
    assert provider.count() == 1

    verdicts: dict[str, str] = {}
    deadline = time.monotonic() + _WAIT_S
    while len(verdicts) < 2:
        assert time.monotonic() < deadline, verdicts
        said = ledger("confirm", "--module", CONFIRMER, "--once", "--json", code=None)
        assert said.code in (0, 3), said.err
        for line in said.lines[:-1]:
            if line["found"] == "settled":
                assert line["run"] not in verdicts
                verdicts[line["run"]] = line["verdict"]
    assert verdicts == {"paid": "EXECUTED", "unpaid": "NOT_EXECUTED"}
    assert ledger("confirm", "--module", CONFIRMER, "--once").out == "Nothing is unknown.\n"

    again = ledger.run([sys.executable, "-m", "examples.payments.runtime", "paid"])
    assert again.out == "settled before: {'payment': 'PAY-1'}\n"
    assert provider.count() == 1


def test_a_module_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    ended = CommandLine(tmp_path)("confirm", "--module", "no.such:thing", "--once", code=2)
    assert "no.such" in ended.err


def test_not_found_waits_while_the_call_may_still_land(
    server: LedgerServer, confirmer: Ledger
) -> None:
    found = _unknown(server, confirmer, "early", timeout_s=60)
    waits = Confirming(confirmer, lambda unknown: NotExecuted()).settle(found)
    assert isinstance(waits, Waits)
    assert found.not_executed_from is not None
    assert waits.until >= found.not_executed_from
    assert list(confirmer.unknowns(run="early")) == [found]


def test_the_ledger_refuses_an_early_no_even_where_this_clock_is_far_ahead(
    server: LedgerServer, confirmer: Ledger
) -> None:
    found = _unknown(server, confirmer, "ahead", timeout_s=60)
    ahead = Confirming(confirmer, lambda unknown: NotExecuted(), clock_margin_s=-3600.0)
    assert isinstance(ahead.settle(found), Waits)
    assert list(confirmer.unknowns(run="ahead")) == [found]


def test_an_error_a_timeout_and_cannot_tell_are_evidence_once_and_settle_nothing(
    server: LedgerServer, confirmer: Ledger
) -> None:
    found = _unknown(server, confirmer, "unsure", timeout_s=60)
    hang = threading.Event()

    def raises(unknown: UnknownStep) -> Answer:
        raise ConnectionError("the provider is down")

    def hangs(unknown: UnknownStep) -> Answer:
        hang.wait(_WAIT_S)
        return Executed()

    async def sleeps(unknown: UnknownStep) -> Answer:
        await asyncio.Event().wait()
        return Executed()

    def unsure(unknown: UnknownStep) -> Answer:
        return CannotTell("the books of May are closed")

    for asked, why in (
        (raises, "confirmer_error"),
        (hangs, "confirmer_timeout"),
        (sleeps, "confirmer_timeout"),
        (unsure, "confirmer_cannot_tell"),
    ):
        for _ in range(2):
            left = Confirming(confirmer, asked, timeout_s=0.3).settle(found)
            assert left == LeftForPerson(found, why)
    hang.set()
    assert sorted(_kinds(server, "unsure")) == [
        "confirmer_cannot_tell",
        "confirmer_error",
        "confirmer_timeout",
    ]
    assert list(confirmer.unknowns(run="unsure")) == [found]


def test_of_two_confirmers_at_once_one_settles_and_the_other_is_told(
    server: LedgerServer, confirmer: Ledger
) -> None:
    found = _unknown(server, confirmer, "twice", timeout_s=60)

    async def yes(unknown: UnknownStep) -> Answer:
        return Executed({"receipt": "R-1"}, external_reference="R-1")

    both = [*Confirming(confirmer, yes).settle_all([found, found])]
    settled = [each for each in both if isinstance(each, Settled)]
    assert [each.verdict for each in settled] == [Verdict.EXECUTED]
    assert [type(each) for each in both if each not in settled] == [LeftForPerson]
