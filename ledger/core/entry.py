"""An entry: the exact bytes of one event in the log (formats, section 1).

The members of an entry sort so that the event's canonical bytes go in unparsed: the envelope is a
prefix and a suffix around them. What is hashed is what was written, never a re-encoding.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ledger.core import canonical, merkle
from ledger.core.canonical import INT_MAX, JsonObject
from ledger.core.envelope import check_entry_members, text_at
from ledger.core.errors import InvariantViolation, Malformed
from ledger.core.ids import Origin, RunId
from ledger.core.times import TIME_LENGTH, format_time, parse_time

ENTRY_LENGTH_MAX: Final = 32_768
EVENT_DEPTH_MAX: Final = canonical.DEPTH_MAX - 1
"""The event stands one level down in its entry."""

_PREFIX: Final = b'{"event":'
_INDEX: Final = b',"index":'
_PREV_PATH: Final = frozenset({"$.run.prev"})
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9._:/@#-]{1,255}")
# The longest envelope: two integers of 16 digits, a time, a previous hash in quotes.
_ENVELOPE_LENGTH_MAX: Final = len(
    '{"event":,"index":,"origin":"","recorded_at":"","run":{"id":"","prev":"","version":},'
    '"v":"ledger-entry/1"}'
) + (16 + 16 + TIME_LENGTH + 64)

CheckBody = Callable[[str, JsonObject], None]
"""Checks a body against the closed schema of its event type; raises `Malformed` with a path rooted
at `$.event.body`. A type that it does not know it lets through."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry that has passed every check a reader makes.

    `event` is the parsed form of `event_bytes`, `prev` the leaf hash of the run's previous entry,
    None exactly when `version` is 0. Times are microseconds since the epoch.
    """

    raw: bytes
    event: JsonObject
    event_bytes: bytes
    index: int
    origin: Origin
    recorded_at_us: int
    run_id: RunId
    prev: bytes | None
    version: int
    type: str
    leaf_hash: bytes


def encode_event(event: JsonObject) -> bytes:
    """The canonical bytes of an event, ready for `build_entry`.

    Raises `Malformed` for what an entry cannot hold. The schema is checked by `check_event`.
    """
    return canonical.encode(event, depth_max=EVENT_DEPTH_MAX)


def event_length_max(*, origin: Origin, run_id: RunId) -> int:
    """How many bytes an event may have so that its entry fits, whatever its index and version.

    Known before the log's head is locked, so that nothing is refused for its length under the lock.
    """
    return ENTRY_LENGTH_MAX - _ENVELOPE_LENGTH_MAX - len(origin) - len(run_id)


def build_entry(
    event_bytes: bytes,
    *,
    index: int,
    origin: Origin,
    recorded_at_us: int,
    run_id: RunId,
    prev: bytes | None,
    version: int,
) -> bytes:
    """Put canonical event bytes into their place in the log; the result is what is hashed.

    `event_bytes` come from `encode_event` and are spliced in as they are. Raises
    `InvariantViolation` where the place is impossible: by then the caller has checked everything.
    """
    if (prev is None) != (version == 0) or (prev is not None and len(prev) != 32):
        raise InvariantViolation("prev is null exactly at version 0, and a hash elsewhere")
    if not (0 <= index <= INT_MAX and 0 <= version <= INT_MAX):
        raise InvariantViolation("an index or version is outside 0..2^53-1")
    if not (_needs_no_escape(origin) and _needs_no_escape(run_id)):
        raise InvariantViolation("an origin or run id holds what JSON would have to escape")
    prev_json = "null" if prev is None else f'"{prev.hex()}"'
    suffix = (
        f',"index":{index},"origin":"{origin}","recorded_at":"{format_time(recorded_at_us)}",'
        f'"run":{{"id":"{run_id}","prev":{prev_json},"version":{version}}},"v":"ledger-entry/1"}}'
    )
    raw = b"".join((_PREFIX, event_bytes, suffix.encode("ascii")))
    if len(raw) > ENTRY_LENGTH_MAX:
        raise InvariantViolation(f"an entry is longer than {ENTRY_LENGTH_MAX} bytes")
    return raw


# Asked for each entry, of few names: one regular expression costs as much as the rest of the check.
@lru_cache(maxsize=4096)
def _needs_no_escape(name: str) -> bool:
    return _PLAIN_NAME.fullmatch(name) is not None


def event_span(raw: bytes) -> bytes:
    """The event's bytes inside an entry that `read_entry` has accepted or `build_entry` made.

    Cut, not parsed: after the event only the envelope's own members follow, and nothing in them
    can hold the text that is searched for. Raises `Malformed` where the frame is missing.
    """
    end = raw.rfind(_INDEX)
    if end < 0 or not raw.startswith(_PREFIX):
        raise Malformed("$", "is not an entry")
    return raw[len(_PREFIX) : end]


def read_entry(
    raw: bytes,
    *,
    origin: Origin | None = None,
    index: int | None = None,
    check_body: CheckBody | None = None,
) -> Entry:
    """Read an entry, checking in the order of formats section 1.

    Length; UTF-8; JSON without repeated members, NaN, infinities and floats; schema (the body's by
    `check_body`); canonical form; `origin` and `index` equal to the place it was read from, where
    the caller names one; then the fields. Raises `Malformed` at the first that fails.
    """
    loaded = canonical.load(raw, length_max=ENTRY_LENGTH_MAX, null_paths=_PREV_PATH)
    members = check_entry_members(loaded.value, check_body)
    if not loaded.is_canonical:
        raise Malformed("$", "not in canonical form (RFC 8785)")
    if origin is not None and members.origin != origin:
        raise Malformed("$.origin", "is not the log that it was read from")
    if index is not None and members.index != index:
        raise Malformed("$.index", "is not the place that it was read from")
    if (members.prev is None) != (members.version == 0):
        raise Malformed("$.run.prev", "is null exactly when the version is 0")
    return Entry(
        raw=raw,
        event=members.event,
        event_bytes=event_span(raw),
        index=members.index,
        origin=members.origin,
        recorded_at_us=parse_time(members.recorded_at, path="$.recorded_at"),
        run_id=members.run_id,
        prev=members.prev,
        version=members.version,
        type=text_at(members.event, "type", "$.event"),
        leaf_hash=merkle.leaf_hash(raw),
    )
