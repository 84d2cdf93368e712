"""After an outage: many unknowns settled under one reason, alone or by two people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledger.client import Ledger, Step
from tests.support.command_line import CommandLine
from tests.support.server_process import LedgerServer
from tests.support.whole_log import verify_whole_log

CODE = ("--reason-code", "mail_was_down")
Serve = Callable[..., tuple[LedgerServer, CommandLine]]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server and the command that calls it; its whole log is verified after the test."""
    running: list[LedgerServer] = []

    def start(**settings: str) -> tuple[LedgerServer, CommandLine]:
        server = LedgerServer(tmp_path / "server", settings=settings).start()
        running.append(server)
        where = {"LEDGER_SERVER": server.address, "LEDGER_DATA": str(server.folder)}
        return server, CommandLine(tmp_path, where)

    try:
        yield start
        for server in running:
            verify_whole_log(server)
    finally:
        for server in running:
            server.close()


def _leave_unknown(server: LedgerServer, *runs: str, tool: str = "send_invoice") -> None:
    """Runs whose host went down inside a call."""
    with Ledger.connect(server.address, token=server.token()) as client:
        for run in runs:
            with client.run(run, holder="agent") as driven:
                driven.plan([Step("s1", tool, "1", {"order": run})])
                driven.effect("s1", timeout_s=600.0).__enter__()
                driven.stop("the_host_goes_down")


def test_all_of_a_tool_are_settled_one_decision_each(serve: Serve) -> None:
    server, ledger = serve()
    _leave_unknown(server, "order-1", "order-2", "order-3")
    _leave_unknown(server, "order-4", tool="charge_card")
    all_of = ("reconcile-all", "--all-of", "send_invoice", "--executed")
    listed = ledger(*all_of, "--dry-run", "--json")
    assert [line["run"] for line in listed.lines[:-1]] == ["order-1", "order-2", "order-3"]
    assert listed.final == {"count": 3, "dry_run": 1}
    assert "say --yes" in ledger(*all_of, *CODE, code=2).err
    assert len(ledger("unknown", "--json").lines) == 5

    account = ledger(*all_of, *CODE, "--yes", "--json")
    words = [(line["run"], line["came_to"]) for line in account.lines[:-1]]
    assert words == [(f"order-{n}", "RECONCILED_EXECUTED") for n in (1, 2, 3)]
    assert account.final == {"count": 3, "reconciled_executed": 3}
    indexes = {line["index"] for line in account.lines[:-1]}
    assert len(indexes) == 3
    (left, _) = ledger("unknown", "--json").lines
    assert left["run"] == "order-4"


def test_what_changed_since_it_was_looked_at_is_refused_and_accounted_for(
    serve: Serve, tmp_path: Path
) -> None:
    server, ledger = serve()
    _leave_unknown(server, "order-1", "order-2")
    one, two, _ = ledger("unknown", "--json").lines
    two["expected_version"] -= 1
    seen = tmp_path / "seen.jsonl"
    seen.write_text("".join(json.dumps(line) + "\n" for line in (one, two)))
    command = ("reconcile-all", "--from-file", str(seen), "--executed", *CODE, "--yes")
    account = ledger(*command, "--json", code=6)
    came_to = {line["run"]: (line["came_to"], line["why"]) for line in account.lines[:2]}
    assert came_to == {
        one["run"]: ("RECONCILED_EXECUTED", ""),
        two["run"]: ("REFUSED", "VERSION_MISMATCH"),
    }
    assert account.lines[2] == {"count": 2, "reconciled_executed": 1, "refused": 1}
    again = ledger(*command, code=6)
    assert "1 steps of the file are not unknown any more" in again.err
    assert [line["run"] for line in ledger("unknown", "--json").lines[:-1]] == [two["run"]]


def test_not_executed_while_calls_may_land_is_refused_for_each(serve: Serve) -> None:
    server, ledger = serve()
    _leave_unknown(server, "order-1", "order-2")
    command = ("reconcile-all", "--all-of", "send_invoice", "--not-executed", *CODE, "--yes")
    account = ledger(*command, "--json", code=6)
    assert [line["why"] for line in account.lines[:2]] == ["TOO_EARLY", "TOO_EARLY"]


def test_two_people_settle_an_outage_by_proposing_and_confirming(
    serve: Serve, tmp_path: Path
) -> None:
    policies = tmp_path / "policies.json"
    policies.write_text('{"all": {"four_eyes": ["NON_IDEMPOTENT_WRITE"]}}')
    server, ledger = serve(LEDGER_POLICIES_FILE=str(policies))
    _leave_unknown(server, "order-1", "order-2")
    all_of = ("reconcile-all", "--all-of", "send_invoice", "--executed", *CODE, "--yes", "--json")
    alone = ledger(*all_of, code=6)
    assert {line["why"] for line in alone.lines[:2]} == {"PROPOSAL_REQUIRED"}
    proposed = ledger(*all_of, "--propose", "--as", "confirmer")
    assert proposed.final == {"count": 2, "proposed": 2}
    indexes = [line["index"] for line in proposed.lines[:2]]
    listed = ledger("unknown", "--json").lines[:2]
    assert [line["proposals"][0]["index"] for line in listed] == indexes
    assert f"{indexes[0]}: executed by" in ledger("unknown").out
    confirmed = ledger(*all_of, "--confirm")
    assert confirmed.final == {"count": 2, "reconciled_executed": 2}


def test_one_step_is_proposed_and_confirmed_by_its_index(serve: Serve, tmp_path: Path) -> None:
    policies = tmp_path / "policies.json"
    policies.write_text('{"tenants": {"default": {"four_eyes": ["NON_IDEMPOTENT_WRITE"]}}}')
    server, ledger = serve(LEDGER_POLICIES_FILE=str(policies))
    _leave_unknown(server, "order-1")
    words = ("order-1", "s1", "--executed", "--reason-code", "receipt_found", "--json")
    index = ledger("propose", *words).final["index"]
    assert "own proposal" in ledger("reconcile", *words, "--proposal", str(index), code=6).out
    other = ledger("propose", *words, "--as", "confirmer").final["index"]
    decided = ledger("reconcile", *words, "--proposal", str(other)).final
    assert decided["state"] == "RECONCILED_EXECUTED"
    assert "proposed: executed (receipt_found)" in ledger("show", "order-1").out
