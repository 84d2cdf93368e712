"""The written limits of the contract, section 12. Past one the answer is a clear error, never less.

The largest values that a setting may take keep every entry under its 32,768 bytes, so that nothing
is refused for its entry's length after the log's head was locked.
"""

from __future__ import annotations

from dataclasses import dataclass

from ledger.core import commands

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request, and what all of them together, may ask for. Sizes are in bytes."""

    payload_bytes_max: int = MEBIBYTE
    message_bytes_max: int = 8 * MEBIBYTE
    commands_max: int = 1_000
    steps_max: int = 1_000
    after_max: int = commands.AFTER_MAX
    evidence_max: int = commands.EVIDENCE_MAX
    labels_max: int = commands.LABELS_MAX
    answer_bytes_max: int = 3 * MEBIBYTE
    """Payloads in one answer: with it, gRPC clients take an answer at their default of 4 MiB."""
    page_max: int = 1_000
    page_default: int = 100
    streams_max: int = 100
    requests_max: int = 1_000
