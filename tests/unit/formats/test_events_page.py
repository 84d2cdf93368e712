"""`events.md` and `events.schema.json`: fresh, and every example on the page executed."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ledger.core.canonical import JsonObject, JsonValue
from ledger.core.entry import read_entry
from ledger.core.errors import Malformed
from ledger.core.events import BODIES, check_body
from ledger.core.sealing import commits_to
from tests.support.format_pages import EXAMPLES, PAGE, SCHEMA, drawn_schema, with_drawn
from tests.support.logs import entries_of, events
from tests.support.pages import ROOT, blocks

TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
BLOCKS = list(blocks(PAGE, TEXT))
GOLDEN = ROOT / "tests" / "golden" / "entries"


@cache
def validator() -> Draft202012Validator:
    schema = json.loads((ROOT / SCHEMA).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def accepts(entry: Any) -> bool:
    return bool(validator().is_valid(entry))


def test_schema_and_page_are_what_the_code_says() -> None:
    assert (ROOT / SCHEMA).read_text(encoding="utf-8") == drawn_schema()
    assert with_drawn(TEXT) == TEXT


def test_the_pages_entry_has_the_pages_leaf_hash_and_commits_to_its_payload() -> None:
    raw, leaf, payload = (block.text for block in BLOCKS[:3])
    entry = read_entry(raw.encode(), index=12, check_body=check_body)
    assert entry.leaf_hash.hex() == leaf
    assert hashlib.sha256(b"\x00" + raw.encode()).hexdigest() == leaf
    commitment = re.search(r'"commitment":"([0-9a-f]{64})"', raw)
    assert commitment is not None
    assert commits_to(bytes.fromhex(commitment[1]), salt=bytes(range(32)), payload=payload.encode())
    assert accepts(json.loads(raw))


def test_every_event_type_has_an_example_that_is_read_and_written_back() -> None:
    found: dict[str, str] = {}
    for block in BLOCKS:
        if block.language == "json":
            above = TEXT.split("\n")[: block.line]
            heading = next(line for line in reversed(above) if line.startswith("#"))
            found[heading.removeprefix("### ")] = block.text
    assert found.keys() == {*BODIES, "## An entry"}
    for event_type, kind in BODIES.items():
        body: JsonObject = json.loads(found[event_type])
        assert kind.from_json(body).to_json() == body
        assert kind.from_json(body) == EXAMPLES[event_type]
        assert accepts(_entry_with(event_type, body))


BAD: list[JsonValue] = ["", "two words", "a-word", "NON_IDEMPOTENT_WRITE"]
BAD += [0, 1, 7, 2**53, None, [], {}, ["two words"]]


@pytest.mark.parametrize("event_type", BODIES)
def test_schema_and_code_refuse_the_same_bodies(event_type: str) -> None:
    whole = EXAMPLES[event_type].to_json()
    broken: list[JsonObject] = [{**whole, "surprise": "x"}, {**whole, "surprise": 1}]
    for name in whole:
        broken.append({member: value for member, value in whole.items() if member != name})
        broken += [_with(whole, name, bad) for bad in BAD]
    for body in broken:
        assert accepts(_entry_with(event_type, body)) == _code_accepts(event_type, body), body


def test_the_schema_accepts_whole_logs() -> None:
    for raw in entries_of(events(runs=3, steps=3)):
        assert accepts(json.loads(raw)), list(validator().iter_errors(json.loads(raw)))


# What only the bytes show (canonical form, repeated members, UTF-8) is beyond a schema.
SEEN_BY_A_SCHEMA = (
    "unknown_member unknown_member_of_the_event missing_payloads unknown_version "
    "null_previous_hash_above_version_0 previous_hash_at_version_0 origin_in_upper_case "
    "negative_index"
).split()


def test_the_schema_judges_the_golden_entries_as_the_code_does() -> None:
    paths = [*(GOLDEN / "accepted").glob("*.entry")]
    assert paths
    paths += [GOLDEN / "refused" / f"{name}.entry" for name in SEEN_BY_A_SCHEMA]
    for path in paths:
        _, _, raw = path.read_bytes().partition(b"\n\n")
        assert accepts(json.loads(raw)) == _reads(raw), path.name


def _with(body: JsonObject, name: str, value: JsonValue) -> JsonObject:
    changed = dict(body)
    changed[name] = value
    return changed


def _reads(raw: bytes) -> bool:
    try:
        read_entry(raw, check_body=check_body)
    except Malformed:
        return False
    return True


def _code_accepts(event_type: str, body: JsonObject) -> bool:
    try:
        check_body(event_type, body)
    except Malformed:
        return False
    return True


def _entry_with(event_type: str, body: JsonObject) -> Any:
    entry = json.loads(BLOCKS[0].text)
    entry["event"]["type"] = event_type
    entry["event"]["body"] = body
    return entry
