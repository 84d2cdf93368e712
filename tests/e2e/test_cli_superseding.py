"""From the list of unknowns alone a contradicted decision can be superseded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.client import Ledger, Reason, Refused, ReportedLate, Step, StepState, Verdict
from tests.support.command_line import CommandLine
from tests.support.server_process import LedgerServer
from tests.support.whole_log import verify_whole_log

_WAIT_S = 30.0


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
def ledger(server: LedgerServer, tmp_path: Path) -> CommandLine:
    """The command, told of the server by its variables."""
    settings = {"LEDGER_SERVER": server.address, "LEDGER_DATA": str(server.folder)}
    return CommandLine(tmp_path, settings)


def _contradicted(server: LedgerServer, run: str) -> None:
    """A step that a reviewer decided not executed, and whose runtime then reported a success."""
    with (
        Ledger.connect(server.address, token=server.token()) as client,
        Ledger.connect(server.address, token=server.token("reviewer")) as reviewer,
    ):
        with client.run(run, holder="agent") as driven:
            driven.plan([Step("s1", "send_invoice", "1", {"order": 1})])
            late = driven.effect("s1", timeout_s=1.0)
            late.__enter__()
            driven.stop("the_host_goes_down")
        (unknown,) = reviewer.unknowns(run=run)
        assert unknown.decision_index is None
        deadline = time.monotonic() + _WAIT_S
        while not _decided(reviewer, unknown):
            assert time.monotonic() < deadline
            time.sleep(0.05)  # pause: between looks at the operation deadline
        with pytest.raises(ReportedLate):
            late.succeeded({"receipt": "INV-1"})


def _decided(reviewer: Ledger, unknown: object) -> bool:
    try:
        reviewer.reconcile(unknown, Verdict.NOT_EXECUTED, reason_code="no_receipt")  # type: ignore[arg-type]
    except Refused as refused:
        assert refused.reason is Reason.TOO_EARLY
        return False
    return True


def test_the_command_that_the_list_shows_settles_the_contradiction(
    server: LedgerServer, ledger: CommandLine
) -> None:
    _contradicted(server, "order-1")
    (line, _) = ledger("unknown", "order-1", "--json").lines
    index = line["decision"]
    assert (line["state"], line["contradiction"]) == ("RECONCILED_NOT_EXECUTED", True)
    shown = ledger("unknown", "order-1").out
    hint = f"ledger reconcile order-1 s1 --supersedes {index}\n"
    assert hint in shown
    story = ledger("show", "order-1", "--json").final
    assert [step["decision"] for step in story["steps"]] == [index]
    assert f"reviewer (human), {index}" in ledger("show", "order-1").out

    without = ledger(
        "reconcile", "order-1", "s1", "--executed", "--reason-code", "found", "--as", "confirmer",
        code=6,
    )  # fmt: skip
    assert f"entry {index}" in without.err
    decided = ledger(
        "reconcile", "order-1", "s1", "--executed", "--reason-code", "receipt_found",
        "--expected-version", str(line["expected_version"]), "--supersedes", str(index),
        "--as", "confirmer", "--json",
    ).final  # fmt: skip
    assert decided["state"] == "RECONCILED_EXECUTED"
    assert ledger("unknown", "order-1").out == "Nothing is unknown.\n"
    story = ledger("show", "order-1", "--json").final
    assert [step["decision"] for step in story["steps"]] == [decided["index"]]
    with Ledger.connect(server.address, token=server.token("reviewer")) as reader:
        (step,) = reader.get_run("order-1").steps
    assert (step.state, step.decision_index) == (StepState.RECONCILED_EXECUTED, decided["index"])
