"""A run's entries from bodies, chained as a log chains them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ledger.core.body import Body
from ledger.core.entry import Entry, build_entry, encode_event, read_entry
from ledger.core.events import check_body
from ledger.core.ids import Origin, RunId

ORIGIN: Final = Origin("ledger.local/story")
START_US: Final = 1_767_225_600_123_456
RUNTIME: Final = ("runtime", "runtime", "drive")

Actor = tuple[str, str, str]
"""Id, kind and role."""


def entries_of(bodies: Iterable[tuple[Body, Actor]], *, run: str = "r") -> list[Entry]:
    """One entry for each body, a second apart."""
    entries: list[Entry] = []
    for index, (body, (actor, kind, role)) in enumerate(bodies):
        event = encode_event(
            {
                "actor": {"auth": "embedded", "id": actor, "kind": kind, "role": role},
                "body": body.to_json(),
                "payloads": [],
                "request": {
                    "digest": "0" * 64,
                    "id": "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0000",
                    "part": index,
                },
                "type": body.TYPE,
            }
        )
        raw = build_entry(
            event,
            index=index,
            origin=ORIGIN,
            recorded_at_us=START_US + index * 1_000_000,
            run_id=RunId(run),
            prev=entries[-1].leaf_hash if entries else None,
            version=index,
        )
        entries.append(read_entry(raw, origin=ORIGIN, index=index, check_body=check_body))
    return entries
