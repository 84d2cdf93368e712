"""Draws what `docs/formats` says of event types from the classes that write them.

    python -m tests.support.format_pages --write

makes `events.schema.json` and the drawn part of `events.md` anew; a test holds both to the code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import MISSING
from enum import StrEnum
from typing import Any, Final

from ledger.core.body import Body, Field, body_schema, fields_of
from ledger.core.canonical import INT_MAX
from ledger.core.events import (
    BODIES,
    AccessAdministered,
    AccessExported,
    AccessLogRead,
    AccessPayloadRead,
    AccessRefused,
    AccessSuppressed,
    AccessVerified,
    CancelRequested,
    EvidenceAttached,
    LeaseAcquired,
    LeaseBroken,
    LeaseExpired,
    LeaseReleased,
    RunClosed,
    RunOpened,
    StepCompleted,
    StepPlanned,
    StepReconciled,
    StepReconcileProposed,
    StepReplayed,
    StepStarted,
    StepUnknown,
    StepWithdrawn,
    ToolDeclared,
    ToolDowngradeAllowed,
)
from ledger.core.vocabulary import EffectClass, Outcome, RunStatus, StepState, Verdict
from tests.support.pages import ROOT

PAGE: Final = "docs/formats/events.md"
SCHEMA: Final = "docs/formats/events.schema.json"
BEGIN: Final = "<!-- drawn by tests/support/format_pages.py: begin -->"
END: Final = "<!-- drawn by tests/support/format_pages.py: end -->"

_TIME_US: Final = 1_767_225_600_000_000
_PROCESS: Final = "5f2d9c1ab03e47d8"

EXAMPLES: Final[dict[str, Body]] = {
    body.TYPE: body
    for body in (
        RunOpened(initiator="user-81", labels=(("case", "R-1"), ("region", "eu"))),
        RunClosed(status=RunStatus.COMPLETED),
        LeaseAcquired(token=1, holder="host-7", process=_PROCESS, expires_at=_TIME_US + 30_000_000),
        LeaseReleased(token=1, stop_reason="budget"),
        LeaseExpired(token=2),
        LeaseBroken(token=3, reason="host-7-is-gone"),
        StepPlanned(
            step="send-invoice",
            tool="mail.send",
            version="2",
            effect=EffectClass.NON_IDEMPOTENT_WRITE,
            key="invoice-4711",
            after=("make-invoice",),
        ),
        StepStarted(
            step="send-invoice",
            attempt=1,
            token=1,
            process=_PROCESS,
            deadline=_TIME_US + 60_000_000,
            key="invoice-4711",
        ),
        StepCompleted(
            step="send-invoice",
            attempt=1,
            token=1,
            outcome=Outcome.SUCCEEDED,
            state=StepState.SUCCEEDED,
        ),
        StepUnknown(step="send-invoice", attempt=1, token=1, cause="holder_dead"),
        StepReplayed(
            step="send-again",
            key="invoice-4711",
            state=StepState.SUCCEEDED,
            settled_by=17,
            run="case-R-1",
            source="send-invoice",
        ),
        StepWithdrawn(step="send-reminder", reason="paid"),
        StepReconcileProposed(
            step="send-invoice",
            verdict=Verdict.NOT_EXECUTED,
            reason_code="not-in-outbox",
            expected_version=12,
            before=StepState.UNKNOWN,
            attempt=1,
            key="invoice-4711",
        ),
        StepReconciled(
            step="send-invoice",
            verdict=Verdict.NOT_EXECUTED,
            reason_code="not-in-outbox",
            expected_version=12,
            before=StepState.UNKNOWN,
            attempt=1,
            key="invoice-4711",
            supersedable=True,
        ),
        EvidenceAttached(
            kind="late_completion",
            step="send-invoice",
            attempt=1,
            token=1,
            outcome="SUCCEEDED",
            why="LATE",
            contradiction=True,
        ),
        CancelRequested(reason="customer-called"),
        ToolDeclared(tool="mail.send", version="2", effect=EffectClass.NON_IDEMPOTENT_WRITE),
        ToolDowngradeAllowed(
            tool="mail.send",
            version="3",
            effect=EffectClass.IDEMPOTENT_WRITE,
            reason="takes-keys-now",
        ),
        AccessRefused(
            method="Reconcile", reason="SELF_RECONCILE", run="case-R-1", step="send-invoice"
        ),
        AccessPayloadRead(
            origin="audit.example/agents",
            index=3,
            payload="0123456789abcdef0123456789abcdef",
            name="arguments",
            run="case-R-1",
        ),
        AccessLogRead(method="ListEntries", start=0),
        AccessExported(origin="audit.example/agents", start=0),
        AccessVerified(origin="audit.example/agents", start=0),
        AccessAdministered(act="BreakLease", run="case-R-1"),
        AccessSuppressed(principal="agent-7", count=1_402, since=_TIME_US + 30_000_000),
    )
}

_KINDS: Final = {
    "Id": "an id",
    "Name": "a log's name",
    "Int": "an integer",
    "Positive": "an integer above 0",
    "Time": "a time",
    "Flag": "a flag",
    "Ids": "1 to 64 ids",
    "Labels": "an object of 1 to 16 ids to ids",
}
_ID: Final = {"$ref": "#/$defs/id"}
_INTEGER: Final = {"type": "integer", "minimum": 0, "maximum": INT_MAX}


def drawn_schema() -> str:
    """The text of `events.schema.json`."""
    return json.dumps(_schema(), indent=2, sort_keys=True, ensure_ascii=True) + "\n"


def drawn_types() -> str:
    """The part of `events.md` between its two markers."""
    parts = [BEGIN]
    for event_type, body in BODIES.items():
        parts += ["", f"### {event_type}", "", body.MEANING, ""]
        parts += ["| member | is | written |", "|---|---|---|"]
        parts += [_row(field) for field in fields_of(body)]
        example = json.dumps(EXAMPLES[event_type].to_json(), sort_keys=True, separators=(",", ":"))
        parts += ["", "```json", example, "```"]
    return "\n".join([*parts, "", END])


def with_drawn(page: str) -> str:
    """A page with its drawn part made anew."""
    above, begin, rest = page.partition(BEGIN)
    _, end, below = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no place for the drawn part")
    return above + drawn_types() + below


def _row(field: Field) -> str:
    kind = _KINDS.get(field.kind.name)
    if kind is None:
        words = field.kind.schema["enum"]
        kind = "one of " + ", ".join(f"`{word}`" for word in words)  # type: ignore[union-attr]
    return f"| `{field.member}` | {kind} | {_written(field)} |"


def _written(field: Field) -> str:
    if field.absent is MISSING:
        return "always"
    if isinstance(field.absent, StrEnum):
        return f"unless `{field.absent}`"
    return "where there is one" if field.kind.name != "Flag" else "as 1, where it holds"


def _schema() -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ledger-entry/1",
        "description": (
            "An entry of version 1. The bytes are RFC 8785 JSON, at most 32,768; that, the order "
            "of time and the chain of a run cannot be said here."
        ),
        "$defs": {
            "id": {"type": "string", "pattern": "^[A-Za-z0-9._:/@#-]{1,128}$"},
            "hash": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "hex_32": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "payload": _object(
                alg={"const": "sha256-salt32"},
                commitment={"$ref": "#/$defs/hash"},
                id={"$ref": "#/$defs/hex_32"},
                key={"$ref": "#/$defs/hex_32"},
                media_type={"type": "string", "minLength": 3, "maxLength": 128},
                name=_ID,
            ),
            "event": _event(),
            "bodies": {name: _body(body) for name, body in BODIES.items()},
        },
        **_object(
            event={"$ref": "#/$defs/event"},
            index=_INTEGER,
            origin={
                "type": "string",
                "maxLength": 255,
                "pattern": "^[a-z0-9.-]+(/[a-z0-9._-]+)*$",
            },
            recorded_at={
                "type": "string",
                "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z$",
            },
            run=_run(),
            v={"const": "ledger-entry/1"},
        ),
    }


def _run() -> dict[str, Any]:
    first = {"prev": {"type": "null"}, "version": {"const": 0}}
    later = {"prev": {"$ref": "#/$defs/hash"}, "version": {"minimum": 1}}
    either = [{"properties": first}, {"properties": later}]
    return _object(id=_ID, prev={"type": ["string", "null"]}, version=_INTEGER) | {"oneOf": either}


def _event() -> dict[str, Any]:
    event = _object(
        actor=_object(
            auth={"enum": ["mtls", "jwt", "embedded", "internal"]},
            id=_ID,
            kind={"enum": ["runtime", "human", "confirmer", "system"]},
            role=_ID,
        ),
        body={"type": "object"},
        payloads={"type": "array", "items": {"$ref": "#/$defs/payload"}},
        request=_object(
            digest={"$ref": "#/$defs/hash"},
            id={
                "type": "string",
                "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
            },
            part=_INTEGER,
        ),
        type={"type": "string", "pattern": "^[a-z][a-z0-9_]*[.][a-z][a-z0-9_]*$"},
    )
    event["properties"]["trace"] = {
        "type": "string",
        "pattern": "^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$",
    }
    event["allOf"] = [
        {
            "if": {"properties": {"type": {"const": name}}},
            "then": {"properties": {"body": {"$ref": f"#/$defs/bodies/{name}"}}},
        }
        for name in BODIES
    ]
    return event


def _body(body: type[Body]) -> dict[str, Any]:
    """The schema of a body, in which no member may hold the value that is written by absence."""
    schema: dict[str, Any] = json.loads(json.dumps(body_schema(body)))
    for field in fields_of(body):
        member = schema["properties"][field.member]
        if isinstance(field.absent, StrEnum):
            member["enum"].remove(str(field.absent))
        elif field.kind.name == "Int" and field.absent == 0:
            member["minimum"] = 1
    return schema


def _object(**members: object) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": members,
        "required": sorted(members),
        "additionalProperties": False,
    }


def _texts() -> Iterator[tuple[str, str]]:
    yield SCHEMA, drawn_schema()
    yield PAGE, with_drawn((ROOT / PAGE).read_text(encoding="utf-8"))


def main() -> int:
    """Writes both files where asked to, else says which is stale. Status 1: one is."""
    stale = 0
    for path, text in _texts():
        file = ROOT / path
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        if "--write" in sys.argv[1:]:
            file.write_text(text, encoding="utf-8")
        else:
            stale = 1
            sys.stderr.write(f"{path} is not what the code says; run with --write\n")
    return stale


if __name__ == "__main__":
    sys.exit(main())
