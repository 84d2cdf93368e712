"""The fast reader accepts nothing that the strict one refuses, and says the same of the rest."""

from __future__ import annotations

import pytest

from ledger.core.canonical import JsonObject
from ledger.core.entry import build_entry, encode_event, read_entry
from ledger.core.errors import Malformed
from ledger.core.events import BODIES, check_body
from ledger.core.ids import RunId
from ledger.verify.scan import Facts, Scanner, facts_of
from tests.support.format_pages import EXAMPLES
from tests.support.logs import ORIGIN, TIME_US
from tests.support.pages import ROOT
from tests.unit.verify.logs import ENTRIES

SCANNER = Scanner(ORIGIN)
INDEX = 41
WITH_LABELS = "run.opened"


def entry(event_type: str, *, trace: bool = False, payloads: int = 1) -> bytes:
    """An entry of a type, with its page's example as body."""
    event: JsonObject = {
        "actor": {"auth": "mtls", "id": "a/b@c", "kind": "human", "role": "reconcile"},
        "body": EXAMPLES[event_type].to_json(),
        "payloads": [
            {
                "alg": "sha256-salt32",
                "commitment": "c" * 64,
                "id": "1" * 32,
                "key": "2" * 32,
                "media_type": "application/json",
                "name": f"payload-{at}",
            }
            for at in range(payloads)
        ],
        "request": {"digest": "d" * 64, "id": "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0000", "part": 3},
        "type": event_type,
    }
    if trace:
        event["trace"] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    return build_entry(
        encode_event(event),
        index=INDEX,
        origin=ORIGIN,
        recorded_at_us=TIME_US,
        run_id=RunId("r"),
        prev=bytes(range(32)),
        version=7,
    )


def strictly(raw: bytes, index: int) -> Facts | None:
    try:
        return facts_of(read_entry(raw, origin=ORIGIN, index=index, check_body=check_body))
    except Malformed:
        return None


@pytest.mark.parametrize("event_type", sorted(BODIES))
@pytest.mark.parametrize(("trace", "payloads"), [(False, 0), (True, 1), (False, 3)])
def test_a_plain_entry_of_every_type_is_scanned_as_it_is_read(
    event_type: str, trace: bool, payloads: int
) -> None:
    raw = entry(event_type, trace=trace, payloads=payloads)
    expected = strictly(raw, INDEX)
    assert expected is not None
    if event_type == WITH_LABELS:
        assert SCANNER.scan(raw, index=INDEX) is None
    else:
        assert SCANNER.scan(raw, index=INDEX) == expected


def test_every_entry_of_a_log_is_scanned_as_it_is_read() -> None:
    for index, raw in enumerate(ENTRIES):
        assert SCANNER.scan(raw, index=index) == strictly(raw, index)


@pytest.mark.parametrize("event_type", sorted(BODIES))
def test_no_changed_byte_is_accepted_that_the_strict_reader_refuses(event_type: str) -> None:
    whole = entry(event_type)
    for at in range(len(whole)):
        for octet in {whole[at] ^ 1, whole[at] ^ 0x20, 0x22, 0x30, 0x2C, 0x7D} - {whole[at]}:
            changed = whole[:at] + bytes([octet]) + whole[at + 1 :]
            scanned = SCANNER.scan(changed, index=INDEX)
            assert scanned is None or scanned == strictly(changed, INDEX), (at, octet)


@pytest.mark.parametrize("event_type", sorted(BODIES))
def test_no_member_left_out_or_doubled_is_accepted_that_the_strict_reader_refuses(
    event_type: str,
) -> None:
    whole = entry(event_type)
    commas = [at for at, octet in enumerate(whole) if octet in b",{}"]
    for begin in commas:
        for end in commas:
            changed = whole[:begin] + whole[end:]
            scanned = SCANNER.scan(changed, index=INDEX)
            assert scanned is None or scanned == strictly(changed, INDEX), (begin, end)


def test_an_entry_at_another_index_of_another_log_or_at_a_time_that_is_none_is_left_alone() -> None:
    raw = entry("step.started")
    assert SCANNER.scan(raw, index=INDEX + 1) is None
    assert Scanner("ledger.test/two").scan(raw, index=INDEX) is None
    for time in (b"2026-02-30T00:01:00", b"2026-01-01T24:01:00", b"2026-01-01T00:01:60"):
        assert b"2026-01-01T00:01:00" in raw
        assert SCANNER.scan(raw.replace(b"2026-01-01T00:01:00", time), index=INDEX) is None


def test_no_hostile_golden_entry_is_accepted() -> None:
    paths = sorted((ROOT / "tests/golden/entries/refused").glob("*.entry"))
    assert paths
    for path in paths:
        _, _, raw = path.read_bytes().partition(b"\n\n")
        for index in (0, 7):
            assert Scanner("ledger.example/log-1").scan(raw, index=index) is None, path.name
