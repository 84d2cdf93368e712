"""Reading payloads from the command line, and the access log that says who did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.client import Ledger, LogName, Step
from tests.support.command_line import CommandLine
from tests.support.server_process import LedgerServer
from tests.support.whole_log import verify_whole_log


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerServer]:
    """A server whose whole log is verified after the tests."""
    running = LedgerServer(tmp_path_factory.mktemp("access") / "server").start()
    try:
        with (
            Ledger.connect(running.address, token=running.token()) as client,
            client.run("order-1", holder="agent") as driven,
        ):
            driven.plan([Step("s1", "send_invoice", "1", {"order": 1})])
        yield running
        verify_whole_log(running)
    finally:
        running.close()


@pytest.fixture
def ledger(server: LedgerServer, tmp_path: Path) -> CommandLine:
    """The command, told of the server by its variables."""
    settings = {"LEDGER_SERVER": server.address, "LEDGER_DATA": str(server.folder)}
    return CommandLine(tmp_path, settings)


def planned_index(ledger: CommandLine) -> int:
    """The index of the entry that planned the step."""
    moments = ledger("show", "order-1", "--json").lines
    return next(int(each["index"]) for each in moments if each.get("type") == "step.planned")


def test_a_reviewer_reads_arguments_and_the_access_log_says_so(ledger: CommandLine) -> None:
    index = planned_index(ledger)
    assert ledger("payload", str(index)).out == '{"order":1}'
    told = ledger("payload", str(index), "arguments", "--json").final
    assert (told["content"], told["media_type"]) == ('{"order":1}', "application/json")
    ledger("payload", str(index), "--out", "arguments.json")
    assert (ledger.folder / "arguments.json").read_bytes() == b'{"order":1}'
    assert "it has: arguments" in ledger("payload", str(index), "result", code=2).err
    assert "no entry" in ledger("payload", "100000", code=2).err
    *entries, final = ledger("access", "--json").lines
    assert final["count"] == len(entries)
    reads = [each for each in entries if each["type"] == "access.payload_read"]
    assert [each["who"] for each in reads[-3:]] == ["reviewer (human)"] * 3
    assert entries[-1]["type"] == "access.log_read"
    listed = ledger("access").out
    assert "payload_read" in listed
    assert "name=arguments" in listed


def test_a_runtime_may_not_read_payloads_or_the_access_log(ledger: CommandLine) -> None:
    index = planned_index(ledger)
    assert ledger("payload", str(index), "--as", "runtime", code=6).err
    assert ledger("access", "--as", "runtime", code=6).err
    *entries, _ = ledger("access", "--json").lines
    refused = [each for each in entries if each["type"] == "access.refused"]
    assert {each["who"] for each in refused} == {"runtime"}


def test_the_access_log_is_verified_under_its_own_key(
    ledger: CommandLine, server: LedgerServer
) -> None:
    ledger("access")
    key = ledger("keys", "show", "--access").out.strip()
    assert key.partition("+")[0].endswith("/access")
    assert ledger("keys", "show").out.strip() != key
    told = ledger("verify", "--access", "--key", key, "--at-least", "1", "--json").final
    assert told["verdict"] == "VERIFIED"
    assert told["origin"] == key.partition("+")[0]
    ledger("verify", "--access", "--key", ledger("keys", "show").out.strip(), code=4)
    ledger("checkpoint", "--access", "--out", "held.checkpoint")
    ledger("export", "access-log", "--access")
    held = ("verify", "access-log", "--key", key, "--held", "held.checkpoint")
    assert ledger(*held, "--json").final["verdict"] == "VERIFIED"


def test_an_export_and_a_verification_are_recorded_once_each(
    ledger: CommandLine, server: LedgerServer
) -> None:
    ledger("export", "log")
    ledger("verify", "--key", ledger("keys", "show").out.strip(), code=3)
    with Ledger.connect(server.address, token=server.token("admin")) as client:
        checkpoint = client.checkpoint(log=LogName.ACCESS)
        entries = list(client.entries(log=LogName.ACCESS))
        assert checkpoint.size < len(entries)
        proof = client.inclusion_proof(0, log=LogName.ACCESS)
        assert proof.tree_size == len(entries)
        assert client.consistency_proof(checkpoint.size, log=LogName.ACCESS).new_size
        assert client.receipt(0, log=LogName.ACCESS).index == 0
    types = [b"access.exported", b"access.verified"]
    assert [sum(t in each.entry for each in entries) for t in types] == [1, 1]
