"""Every check on entries (formats, section 1), one entry after the other in the order of the log.

Memory: a row for each run, 22 bytes for each entry, and nothing else that grows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ledger.core.canonical import JsonObject
from ledger.core.checkpoint import Checkpoint
from ledger.core.entry import Entry, read_entry
from ledger.core.errors import Malformed
from ledger.core.events import (
    BODIES,
    EvidenceAttached,
    RunClosed,
    RunOpened,
    StepReconciled,
    check_body,
)
from ledger.core.ids import LOG_RUN
from ledger.core.merkle import EMPTY_FRONTIER, Frontier, leaf_hash
from ledger.core.sealing import SALT_LENGTH, commits_to
from ledger.verify.repeats import Repeats
from ledger.verify.report import Code, Findings
from ledger.verify.scan import Facts, Scanner, facts_of

AFTER_CLOSE: Final = frozenset(
    {StepReconciled.TYPE, EvidenceAttached.TYPE, "step.reconcile_proposed"}
)
"""What may follow `run.closed` in its run: decisions, proposals and evidence (contract, section
4)."""

_LEAVES_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class Disclosed:
    """A payload that an auditor was given, with the salt of its commitment."""

    index: int
    name: str
    salt: bytes
    payload: bytes


@dataclass(frozen=True, slots=True)
class Point:
    """A root that the log must have had at a size; `source` names who says so."""

    size: int
    root: bytes
    source: str
    code: Code


@dataclass(slots=True)
class _Run:
    version: int
    leaf: bytes
    closed: bool


class EntryChecks:
    """Takes a log's entries in order, adds to findings, and grows the tree of what it hashed."""

    def __init__(
        self,
        *,
        origin: str,
        findings: Findings,
        points: Iterable[Point] = (),
        leaves: Mapping[int, Sequence[tuple[str, bytes]]] | None = None,
        disclosed: Mapping[int, Sequence[Disclosed]] | None = None,
        on_leaf: Callable[[bytes], None] | None = None,
    ) -> None:
        """`leaves` are leaf hashes that must stand at an index, each with the name of its source;
        `on_leaf` is called with every leaf hash in order."""
        self._origin = origin
        self._findings = findings
        self._points = sorted(points, key=lambda point: point.size, reverse=True)
        self._expected = leaves or {}
        self._disclosed = disclosed or {}
        self._on_leaf = on_leaf
        self._frontier = EMPTY_FRONTIER
        self._waiting: list[bytes] = []
        self._runs: dict[str, _Run] = {}
        self._requests = Repeats()
        self._scanner = Scanner(origin)
        self.size = 0
        self.last_us: int | None = None
        self.not_understood: Counter[str] = Counter()
        self.unknown_versions = 0
        self.after_close = 0
        self.payloads = 0
        self.payloads_checked = 0
        self._pass_points()

    def add(self, raw: bytes) -> None:
        """The next entry's bytes. Never raises for what they hold."""
        index = self.size
        facts = None if index in self._disclosed else self._scanner.scan(raw, index=index)
        if facts is None:
            facts = self._read(raw, index)
        if facts is None:
            self._grow(leaf_hash(raw))
            return
        self._check_time(facts)
        self._check_run(facts, index)
        self._requests.add(facts.request, index)
        if facts.type not in BODIES:
            self.not_understood[facts.type] += 1
        self.payloads += facts.payloads
        self._grow(facts.leaf)

    def _read(self, raw: bytes, index: int) -> Facts | None:
        """Reads an entry strictly and says what is wrong with it; None where it cannot be read."""
        try:
            entry = read_entry(raw, check_body=check_body)
        except Malformed as fault:
            if fault.path == "$.v":
                self.unknown_versions += 1
            self._findings.add(Code.ENTRY_MALFORMED, index, str(fault))
            return None
        if entry.origin != self._origin:
            self._findings.add(Code.ENTRY_MISPLACED, index, f"is of the log {entry.origin}")
        if entry.index != index:
            self._findings.add(Code.ENTRY_MISPLACED, index, f"says that its index is {entry.index}")
        if index in self._disclosed:
            self._check_disclosed(entry, index)
        return facts_of(entry)

    def finish(self) -> Frontier:
        """The tree of all that was added; finds what can only be found at the end."""
        self._fold()
        for index, first in sorted(self._requests.found()):
            self._findings.add(
                Code.REQUEST_REPEATED, index, f"the request of entry {first:,} stands again"
            )
        return self._frontier

    @property
    def runs(self) -> int:
        """How many runs have entries, `_log` not counted."""
        return len(self._runs) - (LOG_RUN in self._runs)

    @property
    def runs_open(self) -> int:
        """How many of them have no `run.closed`."""
        is_open = (not run.closed for name, run in self._runs.items() if name != LOG_RUN)
        return sum(is_open)

    def _check_time(self, facts: Facts) -> None:
        if self.last_us is not None and facts.recorded_at_us < self.last_us:
            self._findings.add(
                Code.TIME_DECREASED, self.size, "was recorded before the entry in front of it"
            )
        self.last_us = facts.recorded_at_us

    def _check_run(self, facts: Facts, index: int) -> None:
        run = self._runs.get(facts.run)
        if run is None:
            self._runs[facts.run] = _Run(facts.version, facts.leaf, facts.type == RunClosed.TYPE)
            if facts.version:
                self._broken(index, facts, f"begins at version {facts.version}")
            elif facts.run != LOG_RUN and facts.type != RunOpened.TYPE:
                self._against_rule(index, facts, "is not opened by its first entry")
            return
        if facts.version != run.version + 1:
            self._broken(index, facts, f"goes from version {run.version} to {facts.version}")
        elif facts.prev != run.leaf:
            self._broken(index, facts, "does not name the hash of the run's previous entry")
        if facts.type == RunOpened.TYPE:
            self._against_rule(index, facts, "is opened a second time")
        if run.closed:
            self.after_close += 1
            if facts.type not in AFTER_CLOSE and facts.type in BODIES:
                self._against_rule(index, facts, f"has {facts.type} after its close")
        elif facts.type == RunClosed.TYPE:
            run.closed = True
        run.version = facts.version
        run.leaf = facts.leaf

    def _broken(self, index: int, facts: Facts, text: str) -> None:
        self._findings.add(Code.RUN_CHAIN_BROKEN, index, f"run {facts.run} {text}")

    def _against_rule(self, index: int, facts: Facts, text: str) -> None:
        self._findings.add(Code.RUN_RULE_BROKEN, index, f"run {facts.run} {text}")

    def _check_disclosed(self, entry: Entry, index: int) -> None:
        for disclosed in self._disclosed[index]:
            commitment = _commitment(entry.event, disclosed.name)
            if commitment is None:
                text = f"has no payload {disclosed.name}"
            elif len(disclosed.salt) != SALT_LENGTH or not commits_to(
                commitment, salt=disclosed.salt, payload=disclosed.payload
            ):
                text = f"does not commit to the disclosed payload {disclosed.name}"
            else:
                self.payloads_checked += 1
                continue
            self._findings.add(Code.PAYLOAD_DIFFERS, index, text)

    # The tree

    def _grow(self, leaf: bytes) -> None:
        index = self.size
        for source, expected in self._expected.get(index, ()):
            if leaf != expected:
                self._findings.add(
                    Code.RECEIPT_DIFFERS, index, f"is another entry than that of {source}"
                )
        self._waiting.append(leaf)
        if self._on_leaf is not None:
            self._on_leaf(leaf)
        self.size = index + 1
        if len(self._waiting) == _LEAVES_AT_ONCE:
            self._fold()
        if self._points and self._points[-1].size == self.size:
            self._pass_points()

    def _fold(self) -> None:
        self._frontier = self._frontier.extend(self._waiting)
        self._waiting.clear()

    def _pass_points(self) -> None:
        """Compares the roots that are said of the present size."""
        self._fold()
        root = self._frontier.root()
        while self._points and self._points[-1].size == self.size:
            point = self._points.pop()
            if point.root != root:
                self._findings.add(
                    point.code, None, f"{point.source} has another root at size {point.size:,}"
                )

    @property
    def points_beyond(self) -> Sequence[Point]:
        """Those of sizes that were not reached, smallest first."""
        return self._points[::-1]


def point_of(checkpoint: Checkpoint, *, source: str, code: Code) -> Point:
    """The point that a checkpoint stands for."""
    return Point(checkpoint.size, checkpoint.root, source, code)


def _commitment(event: JsonObject, name: str) -> bytes | None:
    payloads = event["payloads"]
    for payload in payloads if isinstance(payloads, list) else ():
        if isinstance(payload, dict) and payload["name"] == name:
            return bytes.fromhex(str(payload["commitment"]))
    return None
