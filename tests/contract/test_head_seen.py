"""Formats, section 3: what a client saw is compared with what the store holds."""

from __future__ import annotations

import pytest

from ledger.core.commands import OpenRun
from ledger.core.ids import RunId
from ledger.core.refusals import Reason, Refused
from ledger.head_seen import REMEMBERED_MAX, HeadSeen, HeadsSeen
from tests.support.in_process import LedgerInProcess


@pytest.fixture
def leaves(ledger: LedgerInProcess) -> list[bytes]:
    """The leaf hashes of a log of three entries."""
    for number in range(3):
        ledger.send(ledger.request(OpenRun(RunId(f"run-{number}"))))
    return [entry.leaf_hash for entry in ledger.entries()]


def details(refused: Refused | None) -> dict[str, str]:
    """What a refusal of this reason says."""
    assert refused is not None
    assert refused.reason is Reason.HISTORY_REWOUND
    assert not refused.may_succeed_later
    return refused.details


def test_every_head_that_the_log_ever_had_is_held(
    ledger: LedgerInProcess, leaves: list[bytes]
) -> None:
    heads = HeadsSeen(ledger.store)
    for at, leaf in enumerate(leaves):
        assert heads.refusal(ledger.log, HeadSeen(at + 1, leaf)) is None


def test_a_head_beyond_the_end_is_refused_with_what_both_sides_have(
    ledger: LedgerInProcess, leaves: list[bytes]
) -> None:
    told = details(HeadsSeen(ledger.store).refusal(ledger.log, HeadSeen(4, leaves[2])))
    assert told == {
        "seen_size": "4",
        "seen_leaf_hash": leaves[2].hex(),
        "log_size": "3",
        "log_leaf_hash": "",
    }


def test_another_entry_in_its_place_is_refused_with_what_both_sides_have(
    ledger: LedgerInProcess, leaves: list[bytes]
) -> None:
    told = details(HeadsSeen(ledger.store).refusal(ledger.log, HeadSeen(2, leaves[2])))
    assert (told["log_size"], told["log_leaf_hash"]) == ("3", leaves[1].hex())


def test_what_was_acknowledged_here_needs_no_read_until_it_is_forgotten(
    ledger: LedgerInProcess, leaves: list[bytes]
) -> None:
    heads = HeadsSeen(ledger.store)
    seen = HeadSeen(3, leaves[2])
    assert not heads.is_acknowledged(ledger.log, seen)
    heads.acknowledge(ledger.log, index=2, leaf=leaves[2])
    assert heads.is_acknowledged(ledger.log, seen)
    assert not heads.is_acknowledged(ledger.log, HeadSeen(3, leaves[1]))
    for index in range(REMEMBERED_MAX):
        heads.acknowledge(ledger.log, index=index + 3, leaf=leaves[0])
    assert not heads.is_acknowledged(ledger.log, seen)
