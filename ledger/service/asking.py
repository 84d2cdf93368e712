"""Who asks, within which limits: what every decoder is handed beside the message."""

from __future__ import annotations

from dataclasses import dataclass, field

from ledger.core.commands import Caller
from ledger.limits import Limits


@dataclass(frozen=True, slots=True)
class Asking:
    """One message's caller, trace and deadline, and the server's limits.

    `deadline_ns` is on this process's monotonic clock. `key_index_secret` is the tenant's, for keys
    that may not stand in entries (rules, section 5).
    """

    caller: Caller
    limits: Limits
    key_index_secret: bytes = field(repr=False)
    trace: str = ""
    deadline_ns: int | None = None
