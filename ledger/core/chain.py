"""Chaining: from events to entries, leaves and tree, under the lock of the log's head.

The one place where an event gets its index, its run's previous hash and its place in the tree. The
sequencer and the library's recorder both call it.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence

from ledger.core.entry import build_entry
from ledger.core.ids import Origin, RunId
from ledger.core.merkle import Frontier, leaf_hash
from ledger.core.tiles import Growth, TileId, grow
from ledger.core.value import value


@value()
class ChainEvent:
    """An event and its version in its run. `event` are its canonical bytes."""

    run_id: RunId
    version: int
    type: str
    event: bytes


@value()
class Chained:
    """Entries ready to be stored: `entries[i]` has index `size - len(entries) + i`."""

    entries: tuple[bytes, ...]
    leaves: tuple[bytes, ...]
    frontier: Frontier
    growth: Growth


def chain(
    events: Sequence[ChainEvent],
    *,
    origin: Origin,
    frontier: Frontier,
    recorded_at_us: int,
    heads: MutableMapping[RunId, bytes],
    open_tiles: Mapping[TileId, bytes],
) -> Chained:
    """Chain events onto a log whose tree is `frontier`.

    `heads` are the leaf hashes of the newest entry of each run concerned, absent for a run without
    one; they are moved on to the new ones. `open_tiles` are those that `tiles_to_read` names.
    """
    entries: list[bytes] = []
    leaves: list[bytes] = []
    for at, event in enumerate(events):
        entry = build_entry(
            event.event,
            index=frontier.size + at,
            origin=origin,
            recorded_at_us=recorded_at_us,
            run_id=event.run_id,
            prev=None if event.version == 0 else heads[event.run_id],
            version=event.version,
        )
        leaf = leaf_hash(entry)
        heads[event.run_id] = leaf
        entries.append(entry)
        leaves.append(leaf)
    growth = grow(frontier, leaves, open_tiles)
    return Chained(tuple(entries), tuple(leaves), growth.frontier, growth)
