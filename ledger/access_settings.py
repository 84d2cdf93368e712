"""How much of access is recorded, and how fast."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """Rates are for each principal, and what a minute allows may also come at once."""

    refusals_per_minute_max: int = 120
    reads_per_minute_max: int = 1_200
    queued_max: int = 4_000
    suppressed_ms: int = 60_000
    """How long refusals may stay only counted in memory."""
