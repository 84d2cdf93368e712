"""docs/auditors.md: key, checkpoints, folder, receipt and verdicts, as an auditor pastes them."""

from __future__ import annotations

import shutil

import pytest

from ledger.client import Step
from tests.e2e.pages.conftest import Reader
from tests.support.pages import documented


@pytest.fixture(scope="module", autouse=True)
def audited(reader: Reader) -> None:
    """A log to audit, exported as the page says; each test may use what is there."""
    with reader.client() as client, client.run("audited", holder="agent") as run:
        run.plan([Step("s1", "send_invoice", "1", {"order": 1})])
        with run.effect("s1") as effect:
            effect.succeeded({"receipt": "INV-1"})


@pytest.fixture(scope="module")
def log(reader: Reader, audited: None) -> str:
    """What exporting and verifying printed."""
    reader.shell(documented("docs/auditors.md", "pin"))
    reader.commands(documented("docs/auditors.md", "keep"))
    return reader.commands(documented("docs/auditors.md", "whole"))


def test_a_log_is_exported_and_verified_with_what_is_held(reader: Reader, log: str) -> None:
    assert documented("docs/auditors.md", "pin").startswith("ledger keys show")
    assert documented("docs/auditors.md", "keep").startswith("ledger checkpoint --out")
    assert "ledger verify ./log" in documented("docs/auditors.md", "whole")
    assert "\nVERIFIED to size " in log
    for not_proven in ("nothing was recorded after", "not disclosed", "the times", "no witness"):
        assert not_proven in log


def test_without_anything_held_a_log_is_incomplete(reader: Reader, log: str) -> None:
    said = reader.commands(documented("docs/auditors.md", "incomplete"), code=3)
    assert said.startswith("INCOMPLETE: ")


def test_a_receipt_verifies_alone(reader: Reader, log: str) -> None:
    said = reader.commands(documented("docs/auditors.md", "receipt"))
    assert "VERIFIED to size" in said
    assert "entry 2 of " in said


def test_a_folder_answers_without_a_server(reader: Reader, log: str) -> None:
    said = reader.commands(documented("docs/auditors.md", "folder"))
    assert said.startswith("c2sp.org/tlog-proof@v1\n")
    assert "run audited  COMPLETED" in said


def test_the_access_log_is_read_and_verified(reader: Reader, log: str) -> None:
    said = reader.shell(documented("docs/auditors.md", "access")).out
    assert "exported" in said
    assert "log_read" in said
    assert "\nVERIFIED to size " in said
    assert (reader.folder / "access-log" / "checkpoint").is_file()


def test_each_verdict_ends_with_the_pages_exit_code(reader: Reader, log: str) -> None:
    reader.ledger("verify", "./log", code=4)
    reader.ledger("verify", "./nowhere", "--key", "audit.key", code=4)
    reader.ledger("verify", "./log", "--key", "audit.key", "--held", "nowhere", code=2)
    reader.ledger("verify", "./log", "--key", "audit.key", "--at-least", "1000000", code=5)
    forged = reader.folder / "forged"
    shutil.copytree(reader.folder / "log", forged)
    (bundle,) = (path for path in (forged / "tile" / "entries").rglob("*") if path.is_file())
    octets = bytearray(bundle.read_bytes())
    octets[-1] ^= 1
    bundle.write_bytes(octets)
    found = reader.ledger(
        "verify", "forged", "--key", "audit.key", "--held", "2026-11-30.checkpoint", code=5
    )
    assert found.out.startswith("FAILED at size ")
