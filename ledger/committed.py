"""What was committed, as a batch reads it under the head's lock, and what is remembered of it.

Memory spares a batch the reading of what this process wrote itself. It is only trusted while nobody
else appended, which the head's tree tells; leases are read every time, for renewals move them
without an entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ledger.core.answers import Appended
from ledger.core.claims import Claim, Tool
from ledger.core.commands import Command, PlanSteps, SweepRun
from ledger.core.ids import LOG_RUN, RunId
from ledger.core.log import Log
from ledger.core.run import Run
from ledger.core.run_events import SealedRef
from ledger.core.step import Arguments
from ledger.core.tiles import TileId
from ledger.core.value import value
from ledger.store.inline import Projections
from ledger.store.interface import Appending
from ledger.store.rows import blob, number, text
from ledger.store.tables import ENTRIES, REQUESTS, SUBJECTS, Row
from ledger.store.tree import read_open_tiles
from ledger.vault import Gone, Prepared, Sealed, Vault

REMEMBERED_MAX: Final = 2_000
"""Open runs, and as many tools; of what is small, claims and subjects, twice as many. An open run
takes about 2 KiB and as much for each of its steps, a claim 1 KiB."""


@value()
class Earlier:
    """What is kept of a request that appended something."""

    method: str
    digest: bytes
    append: Appended
    first_index: int
    answer: bytes


@dataclass(slots=True)
class Memory:
    """What this process knows of a log's committed state, as of the tree it last saw.

    Thrown away after any error, so that nothing decided in memory outlives a transaction that did
    not commit. `outdated` are runs that others may have appended to: the steps that changed since
    are read, not all of them.
    """

    frontier: bytes = b""
    runs: dict[str, Run] = field(default_factory=dict)
    outdated: dict[str, Run] = field(default_factory=dict)
    claims: dict[tuple[str, str], Claim | None] = field(default_factory=dict)
    tools: dict[str, Tool] = field(default_factory=dict)
    subjects: dict[str, str] = field(default_factory=dict)
    log_version: int | None = None
    log_leaf: bytes = b""

    def forget(self) -> None:
        """Forgets everything that a rolled-back batch may have changed in memory."""
        self.frontier = b""
        self.runs = {}
        self.outdated = {}
        # The subject of a run whose opening did not commit is no subject.
        self.subjects = {}
        self.others_appended()

    def others_appended(self) -> None:
        """Trusts nothing any more that an append of others can have changed."""
        self.outdated |= self.runs
        self.runs = {}
        self.claims = {}
        self.tools = {}
        self.log_version = None

    def trim(self) -> None:
        """Keeps the memory bounded."""
        if len(self.runs) + len(self.outdated) > REMEMBERED_MAX:
            self.runs, self.outdated, self.subjects = {}, {}, {}
        if len(self.claims) > 2 * REMEMBERED_MAX:
            self.claims = {}
        if len(self.subjects) > 2 * REMEMBERED_MAX:
            self.subjects = {}
        if len(self.tools) > REMEMBERED_MAX:
            self.tools = {}


class Committed:
    """The committed state of a log inside one append. Keeps `ledger.core.draft.Source`."""

    def __init__(
        self,
        appending: Appending,
        log: Log,
        vault: Vault,
        projections: Projections,
        memory: Memory,
    ) -> None:
        self._appending = appending
        self._log = log
        self._vault = vault
        self._projections = projections
        self._memory = memory
        self._fresh: dict[str, Sealed] = {}
        self.subjects: dict[str, str] = {}
        if memory.frontier != appending.locked_head.frontier:
            memory.others_appended()
            vault.forget_keys()

    # Before the first command is decided, in as few reads as there are tables

    def earlier(self, prepared: Sequence[Prepared]) -> dict[tuple[str, str], Earlier]:
        """What is kept of the batch's request ids, by (principal, request id)."""
        keys: list[Row] = [
            (self._log.tenant, one.request.caller.principal, one.request.id)
            for one in prepared
            if not isinstance(one.request.command, SweepRun)
        ]
        found = {}
        for row in self._appending.get(REQUESTS, keys) if keys else []:
            _, principal, request_id, method, digest, _, first, last, entries, leaf, at, kept = row
            append = Appended(number(last), blob(leaf), 0, number(entries), number(at))
            found[(text(principal), text(request_id))] = Earlier(
                text(method), blob(digest), append, number(first), blob(kept)
            )
        return found

    def load_runs(self, prepared: Sequence[Prepared]) -> dict[str, Run | None]:
        """The batch's runs, those that do not exist as None; and the subjects of its payloads."""
        wanted = {run_id for one in prepared if (run_id := getattr(one.request.command, "run", ""))}
        known = {r: self._memory.runs[r] for r in wanted if r in self._memory.runs}
        if known:
            self._projections.runs.refresh_leases(self._appending, self._log, known)
        runs = known | self._load(sorted(wanted - known.keys()))
        self._load_named_steps(prepared, runs)
        self._load_subjects(runs)
        for one in prepared:
            subject = getattr(one.request.command, "subject", "")
            run_id = getattr(one.request.command, "run", "")
            if subject and run_id not in runs:
                self.subjects.setdefault(run_id, subject)
        return {run_id: runs.get(run_id) for run_id in wanted}

    def _load(self, run_ids: Sequence[str]) -> dict[str, Run]:
        if not run_ids:
            return {}
        outdated = {r: self._memory.outdated.pop(r) for r in run_ids if r in self._memory.outdated}
        loaded = self._projections.runs.load(self._appending, self._log, run_ids, outdated)
        self._memory.runs.update((r, run) for r, run in loaded.items() if run.is_whole)
        return loaded

    def _load_named_steps(self, prepared: Sequence[Prepared], runs: dict[str, Run]) -> None:
        """One read for the steps that the batch names of runs that are not loaded whole."""
        named = {
            (run_id, step)
            for one in prepared
            if (run_id := getattr(one.request.command, "run", "")) in runs
            and not runs[run_id].is_whole
            for step in _steps_named(one.request.command)
        }
        pairs = [(runs[run_id], step) for run_id, step in sorted(named)]
        if pairs:
            self._projections.runs.load_steps(self._appending, self._log, pairs)

    def _load_subjects(self, runs: dict[str, Run]) -> None:
        """A run's subject is given when it is opened and never changes."""
        keys: list[Row] = []
        for run_id in sorted(runs):
            if run_id in self._memory.subjects:
                self.subjects[run_id] = self._memory.subjects[run_id]
            else:
                keys.append((self._log.tenant, run_id))
        for row in self._appending.get(SUBJECTS, keys) if keys else []:
            self.subjects[text(row[1])] = text(row[2])
        for run_id in runs:
            self._memory.subjects.setdefault(run_id, self.subjects.get(run_id, ""))

    def load_claims(self, prepared: Sequence[Prepared], runs: dict[str, Run | None]) -> None:
        """One read for the keys that the batch is known to touch."""
        wanted: set[tuple[str, str]] = set()
        for one in prepared:
            command = one.request.command
            run = runs.get(getattr(command, "run", ""))
            step = run.steps.get(getattr(command, "step", "")) if run is not None else None
            if step is not None and step.key:
                wanted.add((step.tool, step.key))
                if step.supersedes:
                    wanted.add((step.tool, step.supersedes))
            if isinstance(command, PlanSteps):
                # Planned now, perhaps started by a later command of the batch.
                wanted.update((plan.tool, plan.key) for plan in command.steps if plan.key)
        missing = sorted(wanted - self._memory.claims.keys())
        if missing:
            found = self._projections.claims.claims(self._appending, self._log, missing)
            for key in missing:
                self._memory.claims[key] = found.get(key)

    def take_fresh(self, prepared: Sequence[Prepared]) -> None:
        """Knows the payloads of the batch itself, which are not stored yet."""
        for one in prepared:
            self._fresh.update((sealed.ref.id, sealed) for sealed in one.sealed.values())

    def fresh(self, payload_id: str) -> Sealed | None:
        """A payload of the batch itself."""
        return self._fresh.get(payload_id)

    # What a draft asks for (ledger.core.draft.Source)

    def run(self, run_id: RunId) -> Run | None:
        """A run that no command of the batch names, such as the owner of a key."""
        known = self._memory.runs.get(run_id)
        if known is None:
            return self._load([run_id]).get(run_id)
        self._projections.runs.refresh_leases(self._appending, self._log, {run_id: known})
        return known

    def load_step(self, run: Run, step_id: str) -> None:
        """A step that no command of the batch names, of a run that is not loaded whole."""
        self._projections.runs.load_steps(self._appending, self._log, [(run, step_id)])

    def claim(self, tool: str, key: str) -> Claim | None:
        """A claim as of the last commit."""
        at = (tool, key)
        if at not in self._memory.claims:
            found = self._projections.claims.claims(self._appending, self._log, [at])
            self._memory.claims[at] = found.get(at)
        return self._memory.claims[at]

    def tool(self, name: str, version: str) -> Tool:
        """A tool's bindings as of the last commit."""
        known = self._memory.tools.get(name)
        if known is not None and version in known.loaded:
            return known
        found = self._projections.claims.tool(
            self._appending, self._log, name=name, version=version
        )
        if known is None:
            known = self._memory.tools[name] = found
        else:
            known.take_in(found)
        return known

    def replays(self, tool: str, key: str) -> list[tuple[str, str]]:
        """Steps answered from a key, as of the last commit."""
        return self._projections.claims.replays(self._appending, self._log, tool=tool, key=key)

    def fingerprint_under(self, key_id: str, tool: str, arguments: Arguments) -> bytes | None:
        """Arguments compared across data keys: opened, and digested under the other key."""
        fresh = self._fresh.get(arguments.payload_id)
        if fresh is not None:
            content = fresh.payload.content
        else:
            opened = self._vault.open(self._appending, self._log, arguments.payload_id)
            if isinstance(opened, Gone):
                return None
            content = opened.content
        return self._vault.fingerprint_under(
            self._appending, self._log, key_id=key_id, tool=tool, content=content
        )

    def is_erased(self, key_id: str) -> bool:
        """Whether a data key was destroyed."""
        return self._vault.is_erased(self._appending, self._log, key_id)

    def is_same_payload(self, payload_id: str, sealed: SealedRef) -> bool:
        """Whether a stored payload, or one of this batch, has those bytes."""
        candidate = self._fresh[sealed.id].payload
        fresh = self._fresh.get(payload_id)
        if fresh is not None:
            return fresh.payload.content == candidate.content
        return self._vault.holds(self._appending, self._log, payload_id, candidate)

    def log_version(self) -> int:
        """How many entries the reserved run has."""
        if self._memory.log_version is None:
            rows = self._appending.page(
                ENTRIES,
                equal={"log": self._log.number, "run": LOG_RUN},
                order=("version",),
                descending=True,
                limit=1,
            )
            self._memory.log_version = number(rows[0][3]) + 1 if rows else 0
            self._memory.log_leaf = blob(rows[0][6]) if rows else b""
        return self._memory.log_version

    def subject(self, run_id: RunId) -> str:
        """A run's data subject."""
        if run_id not in self.subjects:
            rows = self._appending.get(SUBJECTS, [(self._log.tenant, run_id)])
            self.subjects[run_id] = text(rows[0][2]) if rows else ""
        return self.subjects[run_id]

    # The tree

    def open_tiles(self, added: int) -> dict[TileId, bytes]:
        """The partial tiles that `added` leaves complete or grow."""
        size = self._appending.locked_head.size
        return read_open_tiles(self._appending, log=self._log.number, size=size, added=added)


def _steps_named(command: Command) -> list[str]:
    if isinstance(command, PlanSteps):
        return [plan.step for plan in command.steps]
    step = getattr(command, "step", "")
    return [step] if step else []


def known_leaf(appending: Appending, log: Log, index: int) -> bytes | None:
    """The leaf hash stored at an index, None beyond the log's end."""
    rows = appending.get(ENTRIES, [(log.number, index)])
    return blob(rows[0][6]) if rows else None
