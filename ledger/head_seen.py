"""Whether the log still holds the head that a client says it saw (formats, section 3).

A client that remembers the newest entry it was shown finds out what no server can that was itself
set back, or that never saw the log before: that acknowledged entries are gone.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from ledger.core.log import Log
from ledger.core.refusals import Reason, Refused
from ledger.store.interface import Store
from ledger.store.rows import blob
from ledger.store.tables import ENTRIES

REMEMBERED_MAX: Final = 16_384
_LEAF: Final = ENTRIES.names.index("leaf")


@dataclass(frozen=True, slots=True)
class HeadSeen:
    """A log of `size` entries, 1 or more, as its client saw it; `leaf` is the last one's hash."""

    size: int
    leaf: bytes


class HeadsSeen:
    """Checks what clients saw. Belongs to one event loop, but for `refusal`, which blocks.

    The newest leaves that this replica has acknowledged are remembered, so that a client that goes
    on where it was costs no read; a log that lost one of those is found by the sequencer.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._acknowledged: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    def acknowledge(self, log: Log, *, index: int, leaf: bytes) -> None:
        """Remembers an entry that the log is known to hold."""
        self._acknowledged[(log.number, index)] = leaf
        if len(self._acknowledged) > REMEMBERED_MAX:
            self._acknowledged.popitem(last=False)

    def is_acknowledged(self, log: Log, seen: HeadSeen) -> bool:
        """Whether that head is remembered. False says nothing."""
        return self._acknowledged.get((log.number, seen.size - 1)) == seen.leaf

    def refusal(self, log: Log, seen: HeadSeen) -> Refused | None:
        """Why nothing is done for a client that saw this; None where the log holds it. One read by
        key, in one snapshot with the head. Raises what the store raises."""
        with self._store.read() as reading:
            size = reading.head(log.number).size
            rows = reading.get(ENTRIES, [(log.number, seen.size - 1)])
        leaf = blob(rows[0][_LEAF]) if rows else b""
        if seen.size <= size and leaf == seen.leaf:
            return None
        return _rewound(seen, size=size, leaf=leaf)


def _rewound(seen: HeadSeen, *, size: int, leaf: bytes) -> Refused:
    what = (
        f"has only {size:,}"
        if seen.size > size
        else f"has another entry in the place of number {seen.size:,}"
    )
    return Refused(
        Reason.HISTORY_REWOUND,
        f"The caller saw a log of {seen.size:,} entries, and this log {what}: acknowledged entries "
        "are gone, or this is another log. Nothing was appended. Run nothing on this log's word, "
        "keep receipts and checkpoints, and tell an operator: see docs/operations.md.",
        details={
            "seen_size": str(seen.size),
            "seen_leaf_hash": seen.leaf.hex(),
            "log_size": str(size),
            "log_leaf_hash": leaf.hex(),
        },
    )
