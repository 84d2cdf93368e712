"""A tenant's log, as this process writes it."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.core.ids import Origin, Tenant


@dataclass(frozen=True, slots=True)
class Log:
    """Which log is whose. `key_index_secret` hides keys that may not stand in entries."""

    tenant: Tenant
    number: int
    origin: Origin
    key_index_secret: bytes

    def __repr__(self) -> str:
        return f"Log({self.tenant}, {self.number}, {self.origin})"
