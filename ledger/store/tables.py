"""Every table and column, named once. The SQL of `migrations` makes them; a test holds the two
together.

Order of columns is the order of values in a row. Times are ledger time in microseconds since the
epoch. Tables of a log have the log's number first in their key; what outlives an origin (runs,
keys, requests, leases) has the tenant first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Value = int | str | bytes | None
Row = tuple[Value, ...]
Kind = Literal["int", "text", "bytes"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `null` says whether it may be NULL."""

    name: str
    kind: Kind
    null: bool = False


# Compared by identity: each stands here once, and texts are looked up by it on every statement.
@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """One table: its columns in row order, and the names of its primary key."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in row order."""
        return tuple(column.name for column in self.columns)


def _table(name: str, key: str, columns: str) -> Table:
    made = []
    for part in columns.split():
        column, _, kind = part.partition(":")
        null = kind.endswith("?")
        plain = kind.rstrip("?")
        made.append(Column(column, _KINDS[plain], null))
    return Table(name, tuple(made), tuple(key.split()))


_KINDS: Final[dict[str, Kind]] = {"int": "int", "text": "text", "bytes": "bytes"}

TENANTS: Final = _table(
    "tenants", "tenant", "tenant:text log:int key_index_secret:bytes created_us:int"
)
"""Who owns which log. `key_index_secret` is wrapped like a data key (rules, section 5)."""

HEADS: Final = _table("heads", "log", "log:int origin:text size:int frontier:bytes time_us:int")
"""One row a log: the only order. Whoever appends locks it first. `frontier` are the hashes of the
perfect subtrees."""

ENTRIES: Final = _table(
    "entries",
    "log idx",
    "log:int idx:int run:text version:int type:text entry:bytes leaf:bytes",
)
"""The log. Unique by (log, idx) and (log, run, version). Only `entry` is normative."""

TILES: Final = _table("tiles", "log level idx", "log:int level:int idx:int hashes:bytes")
"""Tree tiles of height 8: level 0 only when full, higher levels as they grow."""

PAYLOADS: Final = _table(
    "payloads",
    "log id",
    "log:int id:bytes idx:int name:text key_id:text media_type:text sealed:bytes",
)
"""Sealed payloads by payload id."""

DATA_KEYS: Final = _table(
    "data_keys",
    "key_id",
    "key_id:text tenant:text owner:text wrapped:bytes open:int destroyed_idx:int?",
)
"""Wrapped data keys. `owner` is `run:<id>` or `subject:<id>`; one open (1) key each, under a unique
constraint."""

SUBJECTS: Final = _table("subjects", "tenant run", "tenant:text run:text subject:text")
"""The data subject of a run, where one was given. Stands nowhere else."""

REQUESTS: Final = _table(
    "requests",
    "tenant principal request_id",
    "tenant:text principal:text request_id:text method:text digest:bytes log:int first_idx:int"
    " last_idx:int entries:int leaf:bytes recorded_us:int answer:bytes",
)
"""Every request that appended something, for ever. `leaf` is that of its last entry, `last_idx`.
Other entries may stand between its first and its last; `entries` counts its own."""

RUNS: Final = _table(
    "runs",
    "tenant run",
    "tenant:text run:text log:int version:int idx:int leaf:bytes status:text changed_us:int"
    " fold:bytes",
)
"""Inline projection `resume`: one folded run a row, without its steps. `status` is empty while it
is open."""

STEPS: Final = _table(
    "steps",
    "tenant run ordinal",
    "tenant:text run:text ordinal:int step:text state:text changed_version:int fold:bytes",
)
"""Inline projection `resume`: one folded step a row, in the order they were planned. Unique by
(tenant, run, step)."""

LEASES: Final = _table(
    "leases",
    "tenant run",
    "tenant:text run:text token:int holder:text principal:text process:text expires_us:int"
    " ended:text due_us:int?",
)
"""Inline projection `leases`: the newest lease of each run. `ended` is empty while no entry ended
it. `expires_us` moves with renewals, which write no entry. `due_us` is the earliest time at which
the sweep may find something due on the run, NULL when there is nothing to wait for."""

CLAIMS: Final = _table(
    "claims",
    "tenant tool key",
    "tenant:text tool:text key:text run:text step:text state:text idx:int fold:bytes",
)
"""Inline projection `idempotency`: who holds a key, and how it is settled."""

REPLAYS: Final = _table(
    "replays",
    "tenant tool key run step",
    "tenant:text tool:text key:text run:text step:text idx:int",
)
"""Inline projection `idempotency`: steps that were answered from a settled key."""

TOOLS: Final = _table(
    "tools",
    "tenant tool version",
    "tenant:text tool:text version:text class:text allowed:text idx:int",
)
"""Inline projection `idempotency`: the class bound to a tool's version, and the weaker one an admin
allowed. The row with an empty `version` holds the strongest write class ever bound to any version
of the tool."""

UNKNOWNS: Final = _table(
    "unknowns",
    "tenant run step",
    "tenant:text run:text step:text rank:int since_us:int idx:int fold:bytes",
)
"""Inline projection `unknowns`: what waits for a decision. Listed by rank (writes that double
first), then `since_us`."""

CHECKPOINTS: Final = _table("checkpoints", "log size", "log:int size:int note:text created_us:int")
"""Signed checkpoints as they were published."""

ACCESS_LOGS: Final = _table("access_logs", "tenant", "tenant:text log:int")
"""Which log is a tenant's access log."""

ACCESS_REQUESTS: Final = _table(
    "access_requests",
    "log principal request_id part",
    "log:int principal:text request_id:text part:int type:text idx:int",
)
"""Requests that have entries in an access log, one of each type. Never those of the tenant's log:
what is recorded of access is not what a request appended."""

ALL: Final = (
    TENANTS,
    HEADS,
    ENTRIES,
    TILES,
    PAYLOADS,
    DATA_KEYS,
    SUBJECTS,
    REQUESTS,
    RUNS,
    STEPS,
    LEASES,
    CLAIMS,
    REPLAYS,
    TOOLS,
    UNKNOWNS,
    CHECKPOINTS,
    ACCESS_LOGS,
    ACCESS_REQUESTS,
)
