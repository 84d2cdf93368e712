"""What a verification says: a verdict, every finding with its index, and what was not proven."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, assert_never

from ledger.core.times import format_time

FINDINGS_KEPT_MAX: Final = 10_000
"""Beyond it findings are counted by kind; a log whose every entry is wrong still fits in memory."""


class Judgement(StrEnum):
    """The verdicts of formats, section 6."""

    VERIFIED = "VERIFIED"
    VERIFIED_REDACTED = "VERIFIED_REDACTED"
    INCOMPLETE = "INCOMPLETE"
    UNVERIFIABLE = "UNVERIFIABLE"
    FAILED = "FAILED"

    @property
    def exit_code(self) -> int:
        """What `ledger verify` ends with."""
        match self:
            case Judgement.VERIFIED | Judgement.VERIFIED_REDACTED:
                return 0
            case Judgement.INCOMPLETE:
                return 3
            case Judgement.UNVERIFIABLE:
                return 4
            case Judgement.FAILED:
                return 5
        assert_never(self)


class Code(StrEnum):
    """What kind of evidence a finding is. Permanent."""

    ENTRY_MALFORMED = "ENTRY_MALFORMED"
    """The bytes are no entry of version 1 in canonical form."""
    ENTRY_MISPLACED = "ENTRY_MISPLACED"
    """A whole entry, of another log or index than where it stands."""
    TIME_DECREASED = "TIME_DECREASED"
    """Recorded before the entry in front of it."""
    RUN_CHAIN_BROKEN = "RUN_CHAIN_BROKEN"
    """Version or previous hash do not continue the run."""
    RUN_RULE_BROKEN = "RUN_RULE_BROKEN"
    """An event where its run cannot have it: before the opening, or driving after the close."""
    REQUEST_REPEATED = "REQUEST_REPEATED"
    """Principal, request id and part are those of an earlier entry."""
    SHORTER = "SHORTER"
    """Fewer entries than the checkpoint says, or than is held."""
    ROOT_DIFFERS = "ROOT_DIFFERS"
    """The entries are not the tree that the checkpoint signs."""
    CHECKPOINT_INVALID = "CHECKPOINT_INVALID"
    """A signature of a pinned key does not verify, or is under another log's name."""
    HELD_DIFFERS = "HELD_DIFFERS"
    """Not the history of a checkpoint that is held: another root at its size, or another log."""
    RECEIPT_DIFFERS = "RECEIPT_DIFFERS"
    """A receipt that does not verify, or whose entry is not the one at its index."""
    TILE_DIFFERS = "TILE_DIFFERS"
    """A file of tree hashes that is not made of the entries."""
    FILE_UNREADABLE = "FILE_UNREADABLE"
    """A file of the log is missing or malformed."""
    PAYLOAD_DIFFERS = "PAYLOAD_DIFFERS"
    """A disclosed payload that the entry does not commit to."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One piece of evidence. `index` is that of the entry, None where there is no single one."""

    code: Code
    index: int | None
    text: str

    def __str__(self) -> str:
        place = "" if self.index is None else f" at {self.index:,}"
        return f"{self.code}{place}: {self.text}"


class Findings:
    """Findings in the order they were met."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.dropped: Counter[Code] = Counter()

    def add(self, code: Code, index: int | None, text: str) -> None:
        """Keeps a finding, or counts it where very many are kept."""
        if len(self.kept) < FINDINGS_KEPT_MAX:
            self.kept.append(Finding(code, index, text))
        else:
            self.dropped[code] += 1


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a verification.

    `size` entries were hashed; `last_recorded_us` is ledger time of the last of them, None where
    there was none. `findings_beyond` counts, by kind, those that were too many to keep.
    """

    verdict: Judgement
    scope: str
    origin: str
    size: int
    root: bytes
    last_recorded_us: int | None
    findings: tuple[Finding, ...] = ()
    findings_beyond: tuple[tuple[Code, int], ...] = ()
    reasons: tuple[str, ...] = ()
    not_proven: tuple[str, ...] = ()
    not_understood: tuple[tuple[str, int], ...] = ()
    runs: int = 0
    runs_open: int = 0
    after_close: int = 0
    payloads: int = 0
    payloads_checked: int = 0
    signed_by: tuple[str, ...] = field(default=())

    def line(self) -> str:
        """The verdict in one line: how far, until when, and why not more."""
        place = f"size {self.size:,}"
        if self.last_recorded_us is not None:
            place += f", {format_time(self.last_recorded_us)}"
        match self.verdict:
            case Judgement.VERIFIED | Judgement.VERIFIED_REDACTED:
                return f"{self.verdict} to {place}; nothing newer proven"
            case Judgement.INCOMPLETE:
                return f"INCOMPLETE: sound to {place}; {'; '.join(self.reasons)}"
            case Judgement.UNVERIFIABLE:
                return f"UNVERIFIABLE: {'; '.join(self.reasons)}"
            case Judgement.FAILED:
                count = len(self.findings) + sum(number for _, number in self.findings_beyond)
                plural = "" if count == 1 else "s"
                return f"FAILED at {place}: {count:,} finding{plural}; first {self.findings[0]}"
        assert_never(self.verdict)

    def as_json(self) -> dict[str, object]:
        """The whole report for programs."""
        last_us = self.last_recorded_us
        return {
            "verdict": str(self.verdict),
            "line": self.line(),
            "scope": self.scope,
            "origin": self.origin,
            "size": self.size,
            "root": self.root.hex(),
            "last_recorded_at": None if last_us is None else format_time(last_us),
            "signed_by": list(self.signed_by),
            "findings": [
                {"code": str(one.code), "index": one.index, "text": one.text}
                for one in self.findings
            ],
            "findings_beyond": {str(code): number for code, number in self.findings_beyond},
            "reasons": list(self.reasons),
            "not_proven": list(self.not_proven),
            "types_not_understood": dict(self.not_understood),
            "runs": self.runs,
            "runs_open": self.runs_open,
            "entries_after_close": self.after_close,
            "payloads": self.payloads,
            "payloads_checked": self.payloads_checked,
        }
