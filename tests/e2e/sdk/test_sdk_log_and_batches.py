"""Many commands in one message, lists, streams and proofs through the SDK, on a real server."""

from __future__ import annotations

import itertools

import pytest

from ledger.client import Command, Reason, Refused, Step, requests
from ledger.client.process import current
from ledger.client.requests import Attempt, Driving
from ledger.client.values import Execute, LeaseGranted, Opened, Planned, Refusal, Report, Started
from ledger.client.words import Disposition, Outcome, RunStatus
from ledger.core.checkpoint import open_checkpoint
from ledger.core.merkle import leaf_hash
from ledger.core.note_key import VerifierKey
from ledger.core.proof_check import verify_consistency
from ledger.core.receipt import verify_receipt
from tests.e2e.sdk.agent import PAY
from tests.e2e.sdk.conftest import Place


def test_a_whole_run_can_be_sent_in_one_message(place: Place) -> None:
    client = place.client()
    driving = Driving(place.r1, 1, current())
    attempt = Attempt(place.r1, "s1", 1, 1)
    commands: list[Command] = [
        requests.open_run(place.r1),
        requests.acquire_lease(place.r1, holder="shop", process=current(), ttl_s=30),
        requests.plan_steps(driving, [PAY]),
        requests.start_step(driving, "s1", tool_version="1"),
        requests.complete_step(attempt, outcome=Outcome.SUCCEEDED, result={"ok": 1}),
        requests.start_step(driving, "nowhere", tool_version="1"),
        requests.close_run(driving, status=RunStatus.COMPLETED),
    ]
    opened, granted, planned, started, report, refused, _ = client.submit(commands)
    assert isinstance(opened, Opened)
    assert isinstance(granted, LeaseGranted)
    assert isinstance(planned, Planned)
    assert isinstance(started, Started)
    assert isinstance(started.directive, Execute)
    assert isinstance(report, Report)
    assert report.disposition is Disposition.RECORDED
    assert isinstance(refused, Started)
    assert isinstance(refused.directive, Refusal)
    assert refused.directive.reason is Reason.STEP_NOT_PLANNED
    assert place.types(place.r1)[-1] == "run.closed"
    again = client.submit(commands[:3])
    assert [getattr(each, "append", None) for each in (opened, planned)] == [
        getattr(each, "append", None) for each in (again[0], again[2])
    ]
    assert isinstance(again[1], Refused)
    assert place.types(place.r1).count("step.planned") == 1


def test_lists_go_on_over_their_pages(own_place: Place) -> None:
    client = own_place.client()
    client.submit([requests.open_run(f"r{n}") for n in range(30)])
    found = [run.run for run in client.runs(open_only=True)]
    assert sorted(found) == sorted(f"r{n}" for n in range(30))


def test_the_log_is_followed_from_any_index_to_its_head(own_place: Place) -> None:
    client = own_place.client()
    client.submit([requests.open_run(f"r{n}") for n in range(20)])
    auditor = own_place.client("admin")
    listed = list(auditor.entries(start=5))
    followed = list(auditor.follow(start=5, until_head=True))
    assert followed == listed
    assert [entry.index for entry in listed] == list(range(5, 20))
    later = auditor.follow(start=19)
    next(later)
    client.submit([requests.open_run("late")])
    assert next(later).index == 20


def test_an_append_is_proven_in_and_older_sizes_are_prefixes(own_place: Place) -> None:
    client, auditor = own_place.client(), own_place.client("admin")
    client.submit([requests.open_run(f"r{n}") for n in range(12)])
    old = auditor.inclusion_proof(3, tree_size=5)
    new = auditor.inclusion_proof(3)
    entry = next(itertools.islice(auditor.entries(), 3, None))
    assert old.leaf_hash == new.leaf_hash == leaf_hash(entry.entry)
    consistency = auditor.consistency_proof(5)
    verify_consistency(
        old_size=5,
        old_root=old.root,
        new_size=consistency.new_size,
        new_root=new.root,
        proof=consistency.hashes,
    )


def test_a_receipt_verifies_with_the_pinned_key_alone(place: Place) -> None:
    client, auditor = place.client(), place.client("admin")
    (opened,) = client.submit([requests.open_run(place.r1)])
    assert isinstance(opened, Opened)
    assert opened.append is not None
    checkpoint = auditor.checkpoint()
    pinned = VerifierKey.parse(checkpoint.verifier_key)
    signed = open_checkpoint(checkpoint.note.encode(), log_keys=[pinned]).checkpoint
    assert signed.size == checkpoint.size == opened.append.index + 1
    receipt = auditor.receipt(opened.append.index)
    verified = verify_receipt(receipt.text.encode(), log_keys=[pinned])
    assert verified.entry.leaf_hash == opened.append.leaf_hash
    assert (verified.entry.type, verified.entry.run_id) == ("run.opened", place.r1)


def test_a_run_is_watched_as_it_changes(place: Place) -> None:
    client = place.client()
    client.submit([requests.open_run(place.r1)])
    changes = place.client("reviewer").watch(place.r1)
    assert next(changes).run.version == 0
    with client.run(place.r1, holder="shop") as run:
        run.plan([Step("s1", "pay", "1")])
        versions = [next(changes).run.version]
        while versions[-1] < 2:
            versions.append(next(changes).run.version)
    assert versions == sorted(set(versions))


def test_another_tenants_or_absent_run_is_not_found(place: Place) -> None:
    with pytest.raises(Refused) as caught:
        place.client("reviewer").get_run("nowhere")
    assert caught.value.reason is Reason.RUN_NOT_FOUND
