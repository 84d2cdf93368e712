"""Building and reading entries, and the order in which a reader refuses."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import rfc8785

from ledger.core import canonical
from ledger.core.canonical import INT_MAX, JsonObject
from ledger.core.entry import (
    ENTRY_LENGTH_MAX,
    EVENT_DEPTH_MAX,
    build_entry,
    encode_event,
    event_length_max,
    event_span,
    read_entry,
)
from ledger.core.errors import InvariantViolation, Malformed
from ledger.core.ids import Origin, RunId, origin
from ledger.core.merkle import leaf_hash
from tests.unit.core import entries

Break = Callable[[dict[str, Any]], None]


def _put(path: str, value: object) -> Break:
    """Set the member at a dotted path; a number is a place in an array."""

    def change(members: dict[str, Any]) -> None:
        *way, last = path.split(".")
        target: Any = members
        for part in way:
            target = target[int(part)] if part.isdigit() else target[part]
        target[int(last) if last.isdigit() else last] = value

    return change


def _drop(path: str) -> Break:
    def change(members: dict[str, Any]) -> None:
        *way, last = path.split(".")
        target: Any = members
        for part in way:
            target = target[int(part)] if part.isdigit() else target[part]
        del target[last]

    return change


def test_a_built_entry_is_the_canonical_form_of_its_members() -> None:
    raw = entries.entry()
    members = json.loads(raw)
    assert raw == rfc8785.dumps(members)
    assert members == {
        "event": entries.event(),
        "index": 7,
        "origin": "ledger.example/log-1",
        "recorded_at": "2026-01-01T00:00:00.000001Z",
        "run": {"id": "run-1", "prev": entries.PREV.hex(), "version": 3},
        "v": "ledger-entry/1",
    }


def test_an_entry_is_read_back_as_it_was_built() -> None:
    raw = entries.entry()
    read = read_entry(raw, origin=entries.ORIGIN, index=7)
    assert read.raw == raw
    assert read.event == entries.event()
    assert read.event_bytes == event_span(raw) == encode_event(entries.event())
    assert (read.index, read.origin, read.run_id) == (7, entries.ORIGIN, entries.RUN)
    assert (read.prev, read.version) == (entries.PREV, 3)
    assert read.recorded_at_us == entries.RECORDED_AT_US
    assert read.type == "step.planned"
    assert read.leaf_hash == leaf_hash(raw)


def test_the_first_entry_of_a_run_has_no_previous_one() -> None:
    raw = entries.entry(prev=None, version=0)
    assert b'"prev":null,"version":0' in raw
    assert read_entry(raw).prev is None


def test_an_event_whose_body_imitates_an_envelope_is_cut_out_whole() -> None:
    body: JsonObject = {"text": '"},"index":1,"origin":"x"', "index": 5, "run": {"id": "r"}}
    raw = entries.entry(body=body)
    assert json.loads(event_span(raw))["body"] == body
    assert read_entry(raw).event["body"] == body


BROKEN: dict[str, tuple[Break, str]] = {
    "unknown member": (_put("extra", 1), "$.extra"),
    "missing member": (_drop("recorded_at"), "$.recorded_at"),
    "unknown version": (_put("v", "ledger-entry/2"), "$.v"),
    "index as text": (_put("index", "7"), "$.index"),
    "origin in upper case": (_put("origin", "Ledger"), "$.origin"),
    "time without fraction": (_put("recorded_at", "2026-01-01T00:00:00Z"), "$.recorded_at"),
    "time of no day": (_put("recorded_at", "2026-02-30T00:00:00.000001Z"), "$.recorded_at"),
    "run of another kind": (_put("run", "run-1"), "$.run"),
    "unknown member of run": (_put("run.next", "x"), "$.run.next"),
    "run id with a space": (_put("run.id", "run 1"), "$.run.id"),
    "previous hash cut": (_put("run.prev", "ab" * 31), "$.run.prev"),
    "previous hash in upper case": (_put("run.prev", "AB" * 32), "$.run.prev"),
    "previous hash absent above version 0": (_put("run.prev", None), "$.run.prev"),
    "previous hash at version 0": (_put("run.version", 0), "$.run.prev"),
    "event of another kind": (_put("event", []), "$.event"),
    "unknown member of event": (_put("event.data", 1), "$.event.data"),
    "event without payloads": (_drop("event.payloads"), "$.event.payloads"),
    "type without verb": (_put("event.type", "step"), "$.event.type"),
    "type in upper case": (_put("event.type", "Step.planned"), "$.event.type"),
    "unknown auth": (_put("event.actor.auth", "none"), "$.event.actor.auth"),
    "unknown kind of actor": (_put("event.actor.kind", "model"), "$.event.actor.kind"),
    "actor's id empty": (_put("event.actor.id", ""), "$.event.actor.id"),
    "actor's id too long": (_put("event.actor.id", "x" * 129), "$.event.actor.id"),
    "request id in upper case": (
        _put("event.request.id", "0190AAAA-bbbb-7ccc-8ddd-eeeeffff0000"),
        "$.event.request.id",
    ),
    "request digest cut": (_put("event.request.digest", "d" * 63), "$.event.request.digest"),
    "part as text": (_put("event.request.part", "0"), "$.event.request.part"),
    "trace of zeros": (_put("event.trace", f"00-{'0' * 32}-{'1' * 16}-01"), "$.event.trace"),
    "payload of another kind": (_put("event.payloads.1", "x"), "$.event.payloads[1]"),
    "unknown algorithm": (_put("event.payloads.1.alg", "md5"), "$.event.payloads[1].alg"),
    "commitment cut": (
        _put("event.payloads.0.commitment", "c" * 62),
        "$.event.payloads[0].commitment",
    ),
    "payload id cut": (_put("event.payloads.0.id", "1" * 31), "$.event.payloads[0].id"),
    "data key id not hexadecimal": (
        _put("event.payloads.0.key", "g" * 32),
        "$.event.payloads[0].key",
    ),
    "no media type": (
        _put("event.payloads.0.media_type", "json"),
        "$.event.payloads[0].media_type",
    ),
    "payload with a size": (_put("event.payloads.0.size", 1), "$.event.payloads[0].size"),
    "null in the body": (_put("event.body.step", None), "$.event.body.step"),
    "float in the body": (_put("event.body.attempt", 1.5), "$.event.body.attempt"),
    "flag in the body": (_put("event.body.attempt", True), "$.event.body.attempt"),
    "negative in the body": (_put("event.body.attempt", -1), "$.event.body.attempt"),
}


@pytest.mark.parametrize(("change", "path"), BROKEN.values(), ids=BROKEN)
def test_an_entry_that_breaks_the_schema_is_refused_where_it_does(change: Break, path: str) -> None:
    members = json.loads(entries.entry())
    change(members)
    with pytest.raises(Malformed) as refused:
        read_entry(rfc8785.dumps(members))
    assert refused.value.path == path


def test_an_entry_of_another_log_or_place_is_refused() -> None:
    raw = entries.entry()
    with pytest.raises(Malformed, match=r"\$\.origin"):
        read_entry(raw, origin=Origin("ledger.example/log-2"), index=7)
    with pytest.raises(Malformed, match=r"\$\.index"):
        read_entry(raw, origin=entries.ORIGIN, index=8)


def test_a_reader_refuses_in_the_order_of_the_format() -> None:
    members = json.loads(entries.entry())
    spaced = json.dumps(members, separators=(", ", ":")).encode()
    with pytest.raises(Malformed, match="canonical"):
        read_entry(spaced, origin=Origin("other"), index=0)
    members["extra"] = 1
    with pytest.raises(Malformed, match=r"\$\.extra"):
        read_entry(json.dumps(members).encode())
    members["extra"] = 1.5
    with pytest.raises(Malformed, match="float"):
        read_entry(json.dumps(members).encode())
    with pytest.raises(Malformed, match="UTF-8"):
        read_entry(b'{"a":1.5,"b":"\xff"}')
    with pytest.raises(Malformed, match="longer than"):
        read_entry(b"\xff" * (ENTRY_LENGTH_MAX + 1))


def test_the_body_is_handed_to_its_check_with_its_type() -> None:
    seen: list[tuple[str, JsonObject]] = []

    def check(event_type: str, body: JsonObject) -> None:
        seen.append((event_type, body))
        if "secret" in body:
            raise Malformed("$.event.body.secret", "is not known")

    read_entry(entries.entry(), check_body=check)
    assert seen == [("step.planned", entries.event()["body"])]
    with pytest.raises(Malformed, match="secret"):
        read_entry(entries.entry(body={"secret": 1}), check_body=check)


def test_no_flipped_bit_of_an_entry_goes_unnoticed() -> None:
    right = entries.entry()
    read_as_another = 0
    for position in range(len(right)):
        for bit in range(8):
            raw = bytearray(right)
            raw[position] ^= 1 << bit
            try:
                read = read_entry(bytes(raw), origin=entries.ORIGIN, index=7)
            except Malformed:
                continue
            # Another letter in a name or digit in a hash is a right entry, but not this one.
            read_as_another += 1
            assert read.leaf_hash != leaf_hash(right)
            assert rfc8785.dumps(json.loads(bytes(raw))) == bytes(raw)
    assert 0 < read_as_another < len(right) * 8 // 2


def test_the_longest_event_that_is_promised_to_fit_fits_exactly() -> None:
    run_id, log = RunId("r" * 128), origin("o" * 200)
    place = {
        "index": INT_MAX,
        "origin": log,
        "recorded_at_us": 0,
        "run_id": run_id,
        "prev": bytes(32),
        "version": INT_MAX,
    }
    members = entries.event()
    room = event_length_max(origin=log, run_id=run_id) - len(encode_event(members))
    body: Any = members["body"]
    body["step"] += "x" * room
    event_bytes = encode_event(members)
    raw = build_entry(event_bytes, **place)  # type: ignore[arg-type]
    assert len(raw) == ENTRY_LENGTH_MAX
    assert read_entry(raw).version == INT_MAX
    with pytest.raises(InvariantViolation, match="longer"):
        build_entry(event_bytes + b" ", **place)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"prev": None},
        {"version": 0},
        {"prev": bytes(31)},
        {"index": -1},
        {"index": INT_MAX + 1},
        {"version": INT_MAX + 1},
        {"origin": 'x"y'},
        {"run_id": "run\u00e9"},
        {"run_id": ""},
    ],
)
def test_an_impossible_place_is_our_own_mistake(wrong: dict[str, Any]) -> None:
    place: dict[str, Any] = {
        "index": 1,
        "origin": entries.ORIGIN,
        "recorded_at_us": 0,
        "run_id": entries.RUN,
        "prev": bytes(32),
        "version": 1,
    }
    with pytest.raises(InvariantViolation):
        build_entry(b"{}", **{**place, **wrong})


def test_an_event_is_one_level_less_deep_than_its_entry() -> None:
    members = entries.event()
    value: Any = "x"
    for _ in range(EVENT_DEPTH_MAX - 2):
        value = [value]
    members["body"] = {"a": value}
    read_entry(
        build_entry(
            encode_event(members),
            index=0,
            origin=entries.ORIGIN,
            recorded_at_us=0,
            run_id=entries.RUN,
            prev=None,
            version=0,
        )
    )
    deeper = copy.deepcopy(members)
    deeper["body"] = {"a": [value]}
    assert canonical.encode(deeper)
    with pytest.raises(Malformed, match="too deep"):
        encode_event(deeper)


def test_bytes_without_an_entrys_frame_are_not_cut() -> None:
    for raw in (b"", b'{"event":{}}', b'{"a":1,"index":2}'):
        with pytest.raises(Malformed):
            event_span(raw)
