"""docs/reviewers.md: unknowns listed, settled, contradicted and settled anew."""

from __future__ import annotations

import re
import time

import pytest

from ledger.client import Ledger, Reason, Refused, ReportedLate, Step, StepState, Verdict
from tests.e2e.pages.conftest import Reader
from tests.support.pages import documented

SHOP = """
def receipt_of(key):
    return "INV-14"
"""


def _lose(client: Ledger, run: str, *, timeout_s: float = 60.0) -> None:
    with client.run(run, holder="agent") as driven:
        driven.plan([Step("s1", "send_invoice", "1", {"run": run})])
        with driven.effect("s1", timeout_s=timeout_s) as effect:
            effect.unknown("lost_answer")
        driven.stop("lost_answer")


def _state(reader: Reader, run: str) -> StepState:
    with reader.client() as client:
        (step,) = client.get_run(run).steps
    return step.state


@pytest.fixture(scope="module", autouse=True)
def lost(reader: Reader) -> None:
    with reader.client() as client:
        _lose(client, "order-812", timeout_s=1.0)
        _lose(client, "order-814")
        with client.run("order-811", holder="agent") as run:
            run.plan([Step("s1", "send_invoice", "1", {"order": 4711})])
            run.effect("s1").__enter__()
            run.stop("the_host_goes_down")


def test_unknowns_are_listed_and_each_runs_story_is_shown(reader: Reader) -> None:
    said = reader.commands(documented("docs/reviewers.md", "list"))
    assert re.search(r"order-811 +s1 +NON_IDEMPOTENT_WRITE\b.* send_invoice 1 ", said)
    assert '"expected_version":' in said
    assert '"key":"d:' in said
    assert "lease_released" in said
    assert "run order-811  OPEN" in said


def test_the_arguments_of_a_step_are_read_as_the_page_says(reader: Reader) -> None:
    block = documented("docs/reviewers.md", "payload")
    assert block.count("payload 3") == 2
    shown = reader.ledger("show", "order-812", "--json").lines
    (planned,) = (each["index"] for each in shown if each.get("type") == "step.planned")
    said = reader.commands(block.replace("payload 3", f"payload {planned}"))
    assert '{"run":"order-812"}' in said
    assert (reader.folder / "arguments.json").read_bytes() == b'{"run":"order-812"}'


def test_a_step_is_settled_as_the_page_says(reader: Reader) -> None:
    said = reader.commands(documented("docs/reviewers.md", "executed"))
    assert "run order-811, step s1: RECONCILED_EXECUTED" in said
    again = reader.ledger(
        "reconcile", "order-811", "s1", "--executed", "--reason-code", "x", code=6
    )
    assert "wrong_state" in again.err
    with (
        reader.client() as client,
        client.resume("order-811", holder="agent") as run,
        run.effect("s1") as effect,
    ):
        assert not effect.execute


def test_not_executed_waits_until_the_call_cannot_land(reader: Reader) -> None:
    deadline = time.monotonic() + 20
    block = documented("docs/reviewers.md", "not-executed")
    while "RECONCILED_NOT_EXECUTED" not in (said := reader.commands(block, code=None)):
        assert "too_early" in said
        assert time.monotonic() < deadline
        time.sleep(0.1)  # pause: between looks at the operation deadline
    early = reader.ledger(
        "reconcile", "order-814", "s1", "--not-executed", "--reason-code", "no_receipt", code=6
    )
    assert "too_early" in early.err
    with reader.client() as client, client.resume("order-812", holder="agent") as run:
        with pytest.raises(Refused) as refused, run.effect("s1"):
            pass
        assert refused.value.reason is Reason.KEY_ABANDONED
        run.stop("seen")


@pytest.mark.long
def test_a_contradiction_is_settled_by_somebody_else(reader: Reader) -> None:
    with reader.client() as client:
        with client.run("order-813", holder="agent") as run:
            run.plan([Step("s1", "send_invoice", "1", {"order": 4713})])
            late = run.effect("s1", timeout_s=1.0)
            late.__enter__()
            run.stop("the_host_goes_down")
        with reader.client("reviewer") as reviewer:
            _decide_not_executed(reviewer, "order-813")
        with pytest.raises(ReportedLate):
            late.succeeded({"receipt": "INV-13"})
    assert "CONTRADICTED" in reader.ledger("unknown", "order-813").out
    reader.shell(documented("docs/reviewers.md", "supersede"))
    assert _state(reader, "order-813") is StepState.RECONCILED_EXECUTED
    assert reader.ledger("unknown", "order-813").out == "Nothing is unknown.\n"


def _decide_not_executed(reviewer: Ledger, run: str) -> None:
    (unknown,) = reviewer.unknowns(run=run)
    deadline = time.monotonic() + 20
    while True:
        try:
            reviewer.reconcile(unknown, Verdict.NOT_EXECUTED, reason_code="no_receipt")
        except Refused as refused:
            assert refused.reason is Reason.TOO_EARLY
            assert time.monotonic() < deadline
            time.sleep(0.05)  # pause: between looks at the operation deadline
        else:
            return


def test_a_confirmer_settles_what_it_is_sure_of(reader: Reader) -> None:
    (reader.folder / "shop.py").write_text(SHOP)
    said = reader.python(documented("docs/reviewers.md", "confirmer"))
    assert said == "settled order-814 s1"
    assert _state(reader, "order-814") is StepState.RECONCILED_EXECUTED
