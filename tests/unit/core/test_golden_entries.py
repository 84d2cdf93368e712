"""Entries written by hand: those that every reader accepts for ever, and those that none may.

Each refused file says why and where; each accepted one names its leaf hash, taken by another tool.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import rfc8785

from ledger.core.entry import build_entry, read_entry
from ledger.core.errors import Malformed

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "entries"
ACCEPTED = sorted((FOLDER / "accepted").glob("*.entry"))
REFUSED = sorted((FOLDER / "refused").glob("*.entry"))


def _read_golden(path: Path) -> tuple[dict[str, str], bytes]:
    head, _, raw = path.read_bytes().partition(b"\n\n")
    notes = dict(line.split(": ", 1) for line in head.decode().split("\n"))
    return notes, raw


def test_the_golden_entries_are_here() -> None:
    assert len(ACCEPTED) >= 8
    assert len(REFUSED) >= 44


@pytest.mark.parametrize("path", REFUSED, ids=[path.stem for path in REFUSED])
def test_a_hostile_entry_is_refused_where_its_defect_is(path: Path) -> None:
    notes, raw = _read_golden(path)
    with pytest.raises(Malformed) as refused:
        read_entry(raw)
    assert refused.value.path == notes["where"], notes["why"]


@pytest.mark.parametrize("path", ACCEPTED, ids=[path.stem for path in ACCEPTED])
def test_a_right_entry_is_read_and_built_again_to_the_same_bytes(path: Path) -> None:
    notes, raw = _read_golden(path)
    entry = read_entry(raw, origin=None, index=7)
    assert entry.leaf_hash.hex() == notes["leaf"]
    assert rfc8785.dumps(entry.event) == entry.event_bytes
    built = build_entry(
        entry.event_bytes,
        index=entry.index,
        origin=entry.origin,
        recorded_at_us=entry.recorded_at_us,
        run_id=entry.run_id,
        prev=entry.prev,
        version=entry.version,
    )
    assert built == raw
