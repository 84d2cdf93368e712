"""Rebuilding the inline projections from the log alone, and comparing them with the stored rows.

The entries go through the very event classes that the append folded them with; what is compared is
whether the stored rows still say what the entries do. Two things stand in no entry: how far
renewals moved a lease, and the keyed digest that arguments are compared by, which a caller with the
payload keys recomputes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ledger.core.body import Body
from ledger.core.claims import Claim, Tool
from ledger.core.draft import Draft
from ledger.core.entry import Entry, read_entry
from ledger.core.errors import InvariantViolation
from ledger.core.events import BODIES
from ledger.core.ids import LOG_RUN, PrincipalId, RequestId, RunId
from ledger.core.log import Log
from ledger.core.policy import Policy
from ledger.core.run import Run
from ledger.core.run_events import RUN_EVENTS, Actor, NotUnderstood, SealedRef
from ledger.core.step import Arguments
from ledger.core.vocabulary import ActorKind, Auth
from ledger.store.interface import Reading
from ledger.store.tables import (
    CLAIMS,
    LEASES,
    REPLAYS,
    RUNS,
    STEPS,
    TOOLS,
    UNKNOWNS,
    Row,
    Table,
    Value,
)
from projections.idempotency import claim_row, tool_rows
from projections.leases import lease_row
from projections.resume import run_row, step_row
from projections.unknowns import unknown_row

REBUILT: Final = (RUNS, STEPS, LEASES, CLAIMS, REPLAYS, TOOLS, UNKNOWNS)
"""The tables that the log alone decides."""

_MOVED_BY_RENEWALS: Final = frozenset({"expires_us", "due_us"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PAGE: Final = 1_000

Fingerprint = Callable[[SealedRef, str], bytes]
"""The keyed digest of sealed arguments of a tool, empty where they were erased."""


class _Nothing:
    """What stood before the first entry."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}

    def run(self, run_id: RunId) -> Run | None:
        return None

    def load_step(self, run: Run, step_id: str) -> None:
        raise InvariantViolation("a run that is folded from its first entry on is whole")

    def claim(self, tool: str, key: str) -> Claim | None:
        return None

    def tool(self, name: str, version: str) -> Tool:
        found = self._tools.setdefault(name, Tool(name))
        found.loaded.add(version)
        return found

    def replays(self, tool: str, key: str) -> list[tuple[str, str]]:
        return []

    def fingerprint_under(self, key_id: str, tool: str, arguments: Arguments) -> bytes | None:
        return None

    def is_erased(self, key_id: str) -> bool:
        return False

    def is_same_payload(self, payload_id: str, sealed: SealedRef) -> bool:
        return False

    def log_version(self) -> int:
        return 0

    def subject(self, run_id: RunId) -> str:
        return ""


def _no_request_id() -> RequestId:
    raise InvariantViolation("a rebuild records nothing")


class Rebuild:
    """Folds the entries of one log, from index 0 on."""

    def __init__(self, log: Log, *, fingerprint: Fingerprint, policy: Policy | None = None) -> None:
        self._log = log
        self._fingerprint = fingerprint
        self._leaves: dict[str, bytes] = {}
        self._draft = Draft(
            origin=log.origin,
            size=0,
            now_us=0,
            source=_Nothing(),
            new_request_id=_no_request_id,
            policy=policy,
        )

    def take(self, raw: bytes) -> None:
        """The next entry. Raises `Malformed` where it is none."""
        entry = read_entry(raw, origin=self._log.origin)
        known = BODIES.get(entry.type)
        body = known.from_json(_members(entry.event["body"])) if known else Body()
        if entry.run_id == LOG_RUN:
            self._draft.fold_tool(body, index=entry.index)
            return
        run = self._draft.runs.get(entry.run_id)
        timestamp = _EPOCH + timedelta(microseconds=entry.recorded_at_us)
        if run is None:
            run = Run.blank(f"{self._log.origin}#{entry.run_id}", timestamp)
            self._draft.runs[entry.run_id] = run
        request = _members(entry.event["request"])
        event = RUN_EVENTS.get(entry.type, NotUnderstood)(
            originator_id=run.id,
            originator_version=entry.version + 1,
            timestamp=timestamp,
            body=body,
            actor=_actor(entry),
            request_id=RequestId(request["id"]),
            digest=request["digest"],
            part=request["part"],
            index=entry.index,
            recorded_us=entry.recorded_at_us,
            payloads=self._payloads(entry, getattr(body, "tool", "")),
        )
        if known is None:
            event.not_understood = entry.type
        self._draft.fold(run, event)
        self._leaves[entry.run_id] = entry.leaf_hash

    def _payloads(self, entry: Entry, tool: str) -> list[SealedRef]:
        listed = entry.event["payloads"]
        if not isinstance(listed, list):
            raise InvariantViolation("a checked entry has no payload list")
        refs = []
        for members in map(_members, listed):
            ref = SealedRef(
                members["id"],
                members["name"],
                members["key"],
                members["media_type"],
                members["commitment"],
            )
            if ref.name == "arguments":
                ref = replace(ref, fingerprint=self._fingerprint(ref, tool))
            refs.append(ref)
        return refs

    def rows(self) -> dict[str, list[Row]]:
        """The rows of every table of `REBUILT`, by table name."""
        log, draft = self._log, self._draft
        made: dict[str, list[Row]] = {table.name: [] for table in REBUILT}
        for run, steps in draft.touched_runs():
            run.leaf = self._leaves[run.run_id]
            made[RUNS.name].append(run_row(log, run))
            if run.lease.token:
                made[LEASES.name].append(lease_row(log, run))
            for step in steps:
                made[STEPS.name].append(step_row(log, run, step))
                if step.is_listed:
                    made[UNKNOWNS.name].append(unknown_row(log, run, step, draft.policy))
        made[CLAIMS.name] = [claim_row(log.tenant, c) for c in draft.touched_claims.values()]
        made[REPLAYS.name] = [(log.tenant, *replay) for replay in draft.new_replays]
        made[TOOLS.name] = tool_rows(log.tenant, draft)
        return made


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that the log and the store do not agree on. None: not there at all."""

    table: str
    key: Row
    rebuilt: Mapping[str, Value] | None
    stored: Mapping[str, Value] | None


def differences(reading: Reading, log: Log, rebuilt: Mapping[str, list[Row]]) -> list[Difference]:
    """Every row that is missing, is too many, or says something else than the log does.

    Of leases, the columns that renewals move are left out.
    """
    found = []
    for table in REBUILT:
        expected = _by_key(table, rebuilt[table.name])
        stored = _by_key(table, _all(reading, table, log))
        for key in sorted(expected.keys() | stored.keys(), key=str):
            ours, theirs = expected.get(key), stored.get(key)
            if ours != theirs:
                found.append(Difference(table.name, key, ours, theirs))
    return found


def _by_key(table: Table, rows: Sequence[Row]) -> dict[Row, dict[str, Value]]:
    left_out = _MOVED_BY_RENEWALS if table is LEASES else frozenset()
    named = [dict(zip(table.names, row, strict=True)) for row in rows]
    return {
        tuple(row[column] for column in table.key): {
            column: value for column, value in row.items() if column not in left_out
        }
        for row in named
    }


def _all(reading: Reading, table: Table, log: Log) -> list[Row]:
    return list(_pages(reading, table, {"tenant": log.tenant}, table.key))


def _pages(
    reading: Reading, table: Table, equal: Mapping[str, Value], order: Sequence[str]
) -> Iterator[Row]:
    after: Row | None = None
    places = [table.names.index(column) for column in order]
    while True:
        rows = reading.page(table, equal=equal, order=order, after=after, limit=_PAGE)
        yield from rows
        if len(rows) < _PAGE:
            return
        after = tuple(rows[-1][place] for place in places)


def _actor(entry: Entry) -> Actor:
    actor = _members(entry.event["actor"])
    return Actor(
        PrincipalId(actor["id"]), ActorKind(actor["kind"]), Auth(actor["auth"]), actor["role"]
    )


def _members(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvariantViolation("a checked entry holds something else than an object")
    return value
