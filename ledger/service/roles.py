"""Which roles allow which read (docs/api.md holds the same table; a test compares the two).

Mutating calls are not here: their roles stand with the commands (rules, section 1).
"""

from __future__ import annotations

from typing import Final

from ledger.core.vocabulary import Role

_RUNS: Final = frozenset({Role.DRIVE, Role.READ})
_HASHES: Final = frozenset({Role.DRIVE, Role.READ, Role.AUDIT})
_ENTRIES: Final = frozenset({Role.READ, Role.AUDIT})

READ_ROLES: Final[dict[str, frozenset[Role]]] = {
    "GetResumeState": frozenset({Role.DRIVE}),
    "GetRun": _RUNS,
    "ListRuns": _RUNS,
    "WatchRun": _RUNS,
    "ListUnknowns": frozenset({Role.DRIVE, Role.READ, Role.RECONCILE, Role.CONFIRM}),
    "GetCheckpoint": _HASHES,
    "GetInclusionProof": _HASHES,
    "GetConsistencyProof": _HASHES,
    "ListEntries": _ENTRIES,
    "FollowEntries": _ENTRIES,
    "ListRunEntries": _ENTRIES,
    "GetReceipt": frozenset(Role),
    "GetPayload": frozenset({Role.AUDIT, Role.READ, Role.RECONCILE, Role.CONFIRM}),
}
"""Any one of them is enough. GetReceipt by request id is about the caller's own appends; by index
it needs a role of ListEntries."""

RECEIPT_BY_INDEX: Final = _ENTRIES
ACCESS_LOG: Final = frozenset({Role.AUDIT})
"""For every call of the log that names the access log, beside the call's own."""
