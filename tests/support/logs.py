"""Logs of real entries, made by the core alone: no sequencer, no clock, no randomness.

Equal arguments give equal bytes. `write` puts entries into a store as an append does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ledger.core.body import Body
from ledger.core.canonical import JsonObject
from ledger.core.chain import ChainEvent
from ledger.core.entry import build_entry, encode_event
from ledger.core.events import (
    EvidenceAttached,
    LeaseAcquired,
    RunClosed,
    RunOpened,
    StepCompleted,
    StepPlanned,
    StepStarted,
    ToolDeclared,
)
from ledger.core.ids import LOG_RUN, Origin, RunId, Tenant
from ledger.core.log import Log
from ledger.core.merkle import EMPTY_FRONTIER, Frontier, leaf_hash
from ledger.core.sealing import payload_commitment
from ledger.core.tiles import grow
from ledger.core.vocabulary import EffectClass, Outcome, RunStatus, StepState
from ledger.store.interface import Store
from ledger.store.tables import ENTRIES, HEADS, TILES
from ledger.store.tree import read_open_tiles

ORIGIN: Final = Origin("ledger.test/one")
LOG: Final = Log(Tenant("default"), 1, ORIGIN, bytes(32))
TIME_US: Final = 1_767_225_600_000_000
SALT: Final = bytes(range(32))
RESULT: Final = b'{"ok":1}'


def event(body: Body, *, request: int, part: int = 0, result: bytes | None = None) -> bytes:
    """The bytes of an event. Request ids are made from a number."""
    payloads: list[JsonObject] = []
    if result is not None:
        payloads.append(
            {
                "alg": "sha256-salt32",
                "commitment": payload_commitment(salt=SALT, payload=result).hex(),
                "id": f"{request:032x}",
                "key": "2" * 32,
                "media_type": "application/json",
                "name": "result",
            }
        )
    return encode_event(
        {
            "actor": {"auth": "embedded", "id": "rt-1", "kind": "runtime", "role": "drive"},
            "body": body.to_json(),
            "payloads": [*payloads],
            "request": {
                "digest": f"{request:064x}",
                "id": f"00000000-0000-7000-8000-{request:012x}",
                "part": part,
            },
            "type": body.TYPE,
        }
    )


def bodies_of_run(*, steps: int, closed: bool) -> Iterator[Body]:
    """A run's events: opened, leased, each step planned, started, completed; closed or not."""
    yield RunOpened(initiator="user-1")
    yield LeaseAcquired(token=1, holder="host-1", process="p" * 16, expires_at=TIME_US + 30_000_000)
    for number in range(steps):
        step = f"s{number}"
        yield StepPlanned(
            step=step,
            tool="mail.send",
            version="1",
            effect=EffectClass.NON_IDEMPOTENT_WRITE,
            key=f"k{number}",
        )
        yield StepStarted(
            step=step,
            attempt=1,
            token=1,
            process="p" * 16,
            deadline=TIME_US + 60_000_000,
            key=f"k{number}",
        )
        yield StepCompleted(
            step=step, attempt=1, token=1, outcome=Outcome.SUCCEEDED, state=StepState.SUCCEEDED
        )
    if closed:
        yield RunClosed(status=RunStatus.COMPLETED)
        yield EvidenceAttached(kind="note")


def events(*, runs: int = 3, steps: int = 2, first: int = 0) -> list[ChainEvent]:
    """Runs side by side, as several runtimes write them; every second one is closed at its end.

    `first` numbers the first run and its requests, so that two calls can follow each other.
    """
    rows = [
        [
            ChainEvent(RunId(f"run-{run}"), version, body.TYPE, _numbered(body, run, version))
            for version, body in enumerate(bodies_of_run(steps=steps, closed=run % 2 == 0))
        ]
        for run in range(first, first + runs)
    ]
    tool = ToolDeclared(tool="mail.send", version="1", effect=EffectClass.NON_IDEMPOTENT_WRITE)
    # Only the first call declares the tool: `_log` is a run like others, and begins at version 0.
    mixed = (
        []
        if first
        else [ChainEvent(LOG_RUN, 0, tool.TYPE, event(tool, request=10_000_000 + first))]
    )
    while rows:
        mixed += [row.pop(0) for row in rows]
        rows = [row for row in rows if row]
    return mixed


def _numbered(body: Body, run: int, version: int) -> bytes:
    result = RESULT if isinstance(body, StepCompleted) else None
    return event(body, request=run * 1_000 + version + 1, result=result)


def entries_of(log_events: Sequence[ChainEvent], *, origin: Origin = ORIGIN) -> list[bytes]:
    """The entries of a whole log, recorded a microsecond apart."""
    heads: dict[RunId, bytes] = {}
    return _entries(log_events, origin=origin, start=0, heads=heads)


def _entries(
    log_events: Sequence[ChainEvent], *, origin: Origin, start: int, heads: dict[RunId, bytes]
) -> list[bytes]:
    made: list[bytes] = []
    for index, one in enumerate(log_events, start):
        entry = build_entry(
            one.event,
            index=index,
            origin=origin,
            recorded_at_us=TIME_US + index,
            run_id=one.run_id,
            prev=heads.get(one.run_id),
            version=one.version,
        )
        heads[one.run_id] = leaf_hash(entry)
        made.append(entry)
    return made


def make_log(store: Store, log: Log = LOG) -> None:
    """An empty log."""
    with store.change() as changing:
        changing.insert(HEADS, [(log.number, log.origin, 0, EMPTY_FRONTIER.to_bytes(), 0)])


def write(store: Store, log_events: Sequence[ChainEvent], *, log: Log = LOG) -> None:
    """Appends events whose runs are not in the store yet: entries, tiles and head, at once."""
    with store.append(log.number) as appending:
        head = appending.locked_head
        frontier = Frontier.from_bytes(head.frontier)
        entries = _entries(log_events, origin=log.origin, start=head.size, heads={})
        leaves = [leaf_hash(entry) for entry in entries]
        open_tiles = read_open_tiles(appending, log=log.number, size=head.size, added=len(entries))
        growth = grow(frontier, leaves, open_tiles)
        appending.insert(
            ENTRIES,
            [
                (log.number, head.size + at, one.run_id, one.version, one.type, entry, leaf)
                for at, (one, entry, leaf) in enumerate(
                    zip(log_events, entries, leaves, strict=True)
                )
            ],
        )
        appending.upsert(
            TILES,
            [(log.number, tile.id.level, tile.id.index, tile.hashes) for tile in growth.tiles],
        )
        appending.set_head(
            size=growth.frontier.size,
            frontier=growth.frontier.to_bytes(),
            time_us=TIME_US + growth.frontier.size,
        )
