"""An event and an entry that are right in every part, for tests that break one."""

from __future__ import annotations

from typing import Final

from ledger.core.canonical import JsonObject
from ledger.core.entry import build_entry, encode_event
from ledger.core.ids import RunId, origin

ORIGIN: Final = origin("ledger.example/log-1")
RUN: Final = RunId("run-1")
RECORDED_AT_US: Final = 1_767_225_600_000_001
PREV: Final = bytes(range(32))


def event() -> JsonObject:
    """A fresh event with two payloads and a trace."""
    return {
        "actor": {"auth": "mtls", "id": "runtime-7", "kind": "runtime", "role": "drive"},
        "body": {"after": ["a", "b"], "attempt": 1, "step": "invoice-1", "tool": "mail.send"},
        "payloads": [payload("arguments"), payload("reason")],
        "request": {"digest": "d" * 64, "id": "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0000", "part": 0},
        "trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "type": "step.planned",
    }


def payload(name: str) -> JsonObject:
    """A payload's entry form; its commitment is to nothing in particular."""
    return {
        "alg": "sha256-salt32",
        "commitment": "c" * 64,
        "id": "1" * 32,
        "key": "2" * 32,
        "media_type": "application/json; charset=utf-8",
        "name": name,
    }


def entry(
    *, index: int = 7, prev: bytes | None = PREV, version: int = 3, body: JsonObject | None = None
) -> bytes:
    """The bytes of an entry of run-1."""
    members = event()
    if body is not None:
        members["body"] = body
    return build_entry(
        encode_event(members),
        index=index,
        origin=ORIGIN,
        recorded_at_us=RECORDED_AT_US,
        run_id=RUN,
        prev=prev,
        version=version,
    )
