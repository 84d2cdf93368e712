"""One batch of commands against one log: decided in order under the head's lock, written whole.

A batch is one transaction. A refusal is its command's answer and never the batch's failure; what
was decided in memory counts only if the transaction commits.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import time_ns

from ledger.core.answers import (
    Answer,
    Answered,
    Appended,
    Execute,
    LeaseGranted,
    keep_answer,
    kept_answer,
)
from ledger.core.chain import Chained, ChainEvent, chain
from ledger.core.claims import Claim, Tool
from ledger.core.commands import (
    AcquireLease,
    PlanSteps,
    Request,
    StartStep,
    SweepRun,
    allowing_role,
)
from ledger.core.decide import decide
from ledger.core.draft import Draft
from ledger.core.entry import encode_event, read_entry
from ledger.core.errors import InvariantViolation
from ledger.core.ids import LOG_RUN, RequestId, RunId, uuid7
from ledger.core.log import Log
from ledger.core.merkle import Frontier
from ledger.core.refusals import Reason, Refused
from ledger.core.run import Run
from ledger.core.run_events import SealedRef
from ledger.core.step import Arguments
from ledger.core.tiles import TileId, tile_width, tiles_to_read
from ledger.core.vocabulary import Role
from ledger.store.inline import Projections, Touched
from ledger.store.interface import Appending
from ledger.store.rows import blob, number, text
from ledger.store.tables import ENTRIES, PAYLOADS, REQUESTS, SUBJECTS, TILES, Row
from ledger.vault import Gone, Prepared, Sealed, Vault

RUNS_CACHED_MAX = 5_000


@dataclass(frozen=True, slots=True)
class Earlier:
    """What is kept of a request that appended something."""

    method: str
    digest: bytes
    append: Appended
    first_index: int
    answer: bytes


@dataclass(slots=True)
class Memory:
    """What this process knows of a log's committed state, as of the size it last saw.

    Valid only while the head has not moved since: every batch compares. Thrown away after any
    error, so that nothing decided in memory outlives a transaction that did not commit.
    """

    size: int = -1
    runs: dict[str, Run] = field(default_factory=dict)
    claims: dict[tuple[str, str], Claim | None] = field(default_factory=dict)
    tools: dict[str, Tool] = field(default_factory=dict)
    subjects: dict[str, str] = field(default_factory=dict)
    log_version: int | None = None
    log_leaf: bytes = b""

    def forget(self) -> None:
        """Forgets everything."""
        self.size = -1
        self.runs = {}
        self.others_appended()

    def others_appended(self) -> None:
        """Forgets what cannot be brought up to date row by row."""
        self.claims = {}
        self.tools = {}
        self.log_version = None

    def trim(self) -> None:
        """Keeps the memory bounded."""
        if len(self.runs) > RUNS_CACHED_MAX:
            self.runs = {}
            self.subjects = {}
        if len(self.claims) > RUNS_CACHED_MAX:
            self.claims = {}
        if len(self.tools) > RUNS_CACHED_MAX:
            self.tools = {}


@dataclass(slots=True)
class _Outcome:
    request: Request
    answer: Answer
    first_index: int
    recorded: int
    earlier: Earlier | None = None
    last_index: int = -1
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """A batch that is about to be committed: its answers, and the log as it then stands."""

    answers: list[Answered]
    size_before: int
    size: int
    last_leaf: bytes
    time_us: int
    appended: bool


class Batch:
    """Decides and writes one batch inside an append that is open."""

    def __init__(
        self,
        appending: Appending,
        log: Log,
        vault: Vault,
        projections: Projections,
        memory: Memory,
        *,
        now_us: int,
        settle_margin_us: int,
    ) -> None:
        self._appending = appending
        self._log = log
        self._vault = vault
        self._projections = projections
        self._memory = memory
        self._sealed: dict[str, Sealed] = {}
        self._subjects: dict[str, str] = {}
        self._heads: dict[RunId, bytes] = {}
        head = appending.locked_head
        self._frontier = Frontier.from_bytes(head.frontier)
        if self._frontier.size != head.size:
            raise InvariantViolation("the head's size and frontier differ")
        self._draft = Draft(
            origin=log.origin,
            size=head.size,
            now_us=now_us,
            source=self,
            new_request_id=random_request_id,
            settle_margin_us=settle_margin_us,
        )

    def run_all(self, prepared: Sequence[Prepared]) -> Result:
        """Decides every command in order, chains what was recorded, and writes it."""
        if self._memory.size != self._frontier.size:
            self._memory.others_appended()
            self._vault.forget_keys()
        earlier = self._earlier(prepared)
        self._load_runs(prepared)
        self._vault.settle(self._appending, self._log, prepared, self._subjects)
        for one in prepared:
            self._sealed.update((s.ref.id, s) for s in one.sealed.values())
        self._load_claims(prepared)
        outcomes = [self._decide(one, earlier) for one in prepared]
        chained = self._chain()
        self._write(prepared, outcomes, chained)
        return self._result(outcomes, chained)

    # Reading under the lock

    def _earlier(self, prepared: Sequence[Prepared]) -> dict[tuple[str, str], Earlier]:
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

    def _load_runs(self, prepared: Sequence[Prepared]) -> None:
        """One read for the heads of the batch's runs; none where nobody else appended."""
        wanted = {run_id for one in prepared if (run_id := getattr(one.request.command, "run", ""))}
        current = self._memory.size == self._frontier.size
        known = {r: self._memory.runs[r] for r in wanted if r in self._memory.runs}
        stale = wanted if not current else wanted - known.keys()
        if current and known:
            self._projections.runs.refresh_leases(self._appending, self._log, known)
        loaded = (
            self._projections.runs.load(self._appending, self._log, sorted(stale), known)
            if stale
            else {}
        )
        for run_id in wanted:
            run = loaded.get(run_id) if run_id in stale else known[run_id]
            self._draft.runs[run_id] = run
            if run is not None:
                self._memory.runs[run_id] = run
        self._load_subjects(wanted)
        for one in prepared:
            subject = getattr(one.request.command, "subject", "")
            run_id = getattr(one.request.command, "run", "")
            if subject and self._draft.runs.get(run_id) is None:
                self._subjects.setdefault(run_id, subject)

    def _load_subjects(self, run_ids: set[str]) -> None:
        """A run's subject is given when it is opened and never changes."""
        keys: list[Row] = []
        for run_id in sorted(run_ids):
            if run_id in self._memory.subjects:
                self._subjects[run_id] = self._memory.subjects[run_id]
            elif self._draft.runs.get(run_id) is not None:
                keys.append((self._log.tenant, run_id))
        for row in self._appending.get(SUBJECTS, keys) if keys else []:
            self._subjects[text(row[1])] = text(row[2])

    def _load_claims(self, prepared: Sequence[Prepared]) -> None:
        """One read for the keys that the batch is known to touch."""
        wanted: set[tuple[str, str]] = set()
        for one in prepared:
            command = one.request.command
            run = self._draft.runs.get(getattr(command, "run", ""))
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

    # The draft's source (ledger.core.draft.Source)

    def run(self, run_id: RunId) -> Run | None:
        """A run that no command of the batch names, such as the owner of a key."""
        known = self._memory.runs.get(run_id)
        if known is not None and self._memory.size == self._frontier.size:
            self._projections.runs.refresh_leases(self._appending, self._log, {run_id: known})
            return known
        given: dict[str, Run] = {} if known is None else {run_id: known}
        loaded = self._projections.runs.load(self._appending, self._log, [run_id], given)
        run = loaded.get(run_id)
        if run is not None:
            self._memory.runs[run_id] = run
        return run

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
        fresh = self._sealed.get(arguments.payload_id)
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
        candidate = self._sealed[sealed.id].payload
        fresh = self._sealed.get(payload_id)
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
        if run_id not in self._subjects:
            rows = self._appending.get(SUBJECTS, [(self._log.tenant, run_id)])
            self._subjects[run_id] = text(rows[0][2]) if rows else ""
        return self._subjects[run_id]

    # Deciding

    def _decide(self, one: Prepared, known: dict[tuple[str, str], Earlier]) -> _Outcome:
        request = one.request
        at = (request.caller.principal, request.id)
        earlier = known.get(at)
        role = allowing_role(request.command, request.caller)
        if role is None and not isinstance(request.command, SweepRun):
            return self._unrecorded(request, _role_missing(request))
        if earlier is not None:
            repeated = self._repeated(one, earlier)
            if repeated is not None:
                return repeated
        self._draft.begin(request, role or Role.ADMIN, one.refs())
        first = self._draft.next_index
        started = len(self._draft.placed)
        answer = decide(
            self._draft, request, earlier=None if earlier is None else earlier.first_index
        )
        recorded = self._draft.recorded_for_request
        outcome = _Outcome(request, answer, first, recorded, earlier)
        outcome.repeats = earlier is not None and _tells_of_before(answer)
        if recorded:
            self._place(outcome, started)
            known[at] = Earlier(
                request.method,
                request.digest,
                Appended(outcome.last_index, b"", 0, recorded, self._draft.now_us),
                outcome.first_index,
                keep_answer(answer),
            )
        return outcome

    def _place(self, outcome: _Outcome, started: int) -> None:
        """The first and last index that stand under the request's own id."""
        own = [
            placed.event.index
            for placed in self._draft.placed[started:]
            if placed.event.request_id == outcome.request.id
        ]
        outcome.first_index, outcome.last_index = own[0], own[-1]

    def _repeated(self, one: Prepared, earlier: Earlier) -> _Outcome | None:
        """The answer to a request that appended something before, or None to decide it by the
        present state."""
        request = one.request
        if earlier.method != request.method or earlier.digest != request.digest:
            return self._unrecorded(request, _request_reused(request))
        if isinstance(request.command, (StartStep, AcquireLease)):
            return None
        if not self._same_payloads(one, earlier):
            return self._unrecorded(request, _request_reused(request))
        return _Outcome(request, kept_answer(earlier.answer), -1, 0, earlier, repeats=True)

    def _same_payloads(self, one: Prepared, earlier: Earlier) -> bool:
        """Payloads of a repeated request are compared by recomputing the stored commitments.

        Steps of a plan are compared with the plan; everything else has one entry whose payloads
        stand in the order of the command.
        """
        command = one.request.command
        if not one.sealed:
            return True
        if isinstance(command, PlanSteps):
            return self._same_plan(one, command)
        refs = self._payload_ids(earlier.append.index)
        given = list(one.sealed.values())
        return len(refs) == len(given) and all(
            self._is_same(payload_id, sealed)
            for payload_id, sealed in zip(refs, given, strict=True)
        )

    def _same_plan(self, one: Prepared, command: PlanSteps) -> bool:
        run = self._draft.run(command.run)
        for ordinal, plan in enumerate(command.steps):
            step = None if run is None else run.steps.get(plan.step)
            if step is None or (step.is_write and plan.key != step.key):
                return False
            ref = one.sealed[("arguments", ordinal)].ref
            other = Arguments(ref.id, ref.key_id, ref.fingerprint)
            same = self._draft.same_arguments(tool=plan.tool, first=step.arguments, other=other)
            # Erased since: the digest alone decides (rules, section 8).
            if same is False:
                return False
        return True

    def _is_same(self, payload_id: str, sealed: Sealed) -> bool:
        fresh = self._sealed.get(payload_id)
        if fresh is not None:
            return fresh.payload.content == sealed.payload.content
        opened = self._vault.open(self._appending, self._log, payload_id)
        return isinstance(opened, Gone) or opened.content == sealed.payload.content

    def _payload_ids(self, index: int) -> list[str]:
        before = self._frontier.size
        if index >= before:
            return [ref.id for ref in self._draft.placed[index - before].event.payloads]
        row = self._appending.get(ENTRIES, [(self._log.number, index)])[0]
        payloads = read_entry(blob(row[5])).event["payloads"]
        if not isinstance(payloads, list):
            raise InvariantViolation("a stored entry has no payload list")
        return [str(ref["id"]) for ref in payloads if isinstance(ref, dict)]

    def _unrecorded(self, request: Request, answer: Answer) -> _Outcome:
        return _Outcome(request, answer, -1, 0)

    # Chaining and writing

    def _chain(self) -> Chained:
        events = [
            ChainEvent(
                placed.run_id, placed.version, placed.type, encode_event(placed.event.to_json())
            )
            for placed in self._draft.placed
        ]
        heads: dict[RunId, bytes] = {}
        for placed in self._draft.placed:
            if placed.run_id == LOG_RUN:
                heads[LOG_RUN] = self._memory.log_leaf
            elif placed.run_id not in heads:
                run = self._draft.runs[placed.run_id]
                heads[placed.run_id] = run.leaf if run is not None else b""
        chained = chain(
            events,
            origin=self._log.origin,
            frontier=self._frontier,
            recorded_at_us=self._draft.now_us,
            heads=heads,
            open_tiles=self._open_tiles(len(events)),
        )
        if LOG_RUN in heads and events:
            self._memory.log_leaf = heads[LOG_RUN]
        self._heads = heads
        return chained

    def _open_tiles(self, added: int) -> dict[TileId, bytes]:
        size = self._frontier.size
        tiles = {}
        for tile_id in tiles_to_read(size=size, added=added):
            if tile_id.level == 0:
                rows = self._appending.page(
                    ENTRIES,
                    equal={"log": self._log.number},
                    order=("idx",),
                    greater={"idx": tile_id.index * 256 - 1},
                    limit=tile_width(tile_id, size=size),
                )
                tiles[tile_id] = b"".join(blob(row[6]) for row in rows)
            else:
                key = (self._log.number, tile_id.level, tile_id.index)
                tiles[tile_id] = blob(self._appending.get(TILES, [key])[0][3])
        return tiles

    def _write(
        self, prepared: Sequence[Prepared], outcomes: Sequence[_Outcome], chained: Chained
    ) -> None:
        draft, log, appending = self._draft, self._log, self._appending
        if not draft.placed:
            return
        before = self._frontier.size
        appending.insert(
            ENTRIES,
            [
                (log.number, before + at, placed.run_id, placed.version, placed.type, entry, leaf)
                for at, (placed, entry, leaf) in enumerate(
                    zip(draft.placed, chained.entries, chained.leaves, strict=True)
                )
            ],
        )
        appending.upsert(
            TILES,
            [(log.number, t.id.level, t.id.index, t.hashes) for t in chained.growth.tiles],
        )
        appending.insert(PAYLOADS, self._payload_rows())
        appending.insert(REQUESTS, self._request_rows(outcomes, chained))
        if draft.new_subjects:
            appending.insert(
                SUBJECTS,
                [(log.tenant, run_id, subject) for run_id, subject in draft.new_subjects.items()],
            )
        touched = Touched(log, draft, self._heads)
        for projection in self._projections.written:
            projection.write(appending, touched)
        appending.set_head(
            size=chained.frontier.size,
            frontier=chained.frontier.to_bytes(),
            time_us=draft.now_us,
        )

    def _payload_rows(self) -> list[Row]:
        rows: list[Row] = []
        for placed in self._draft.placed:
            for ref in placed.event.payloads:
                sealed = self._sealed[ref.id]
                rows.append(
                    (
                        self._log.number,
                        bytes.fromhex(ref.id),
                        placed.event.index,
                        ref.name,
                        ref.key_id,
                        ref.media_type,
                        sealed.sealed,
                    )
                )
        return rows

    def _request_rows(self, outcomes: Sequence[_Outcome], chained: Chained) -> list[Row]:
        before = self._frontier.size
        return [
            (
                self._log.tenant,
                one.request.caller.principal,
                one.request.id,
                one.request.method,
                one.request.digest,
                self._log.number,
                one.first_index,
                one.last_index,
                one.recorded,
                chained.leaves[one.last_index - before],
                self._draft.now_us,
                keep_answer(one.answer),
            )
            for one in outcomes
            if one.recorded
        ]

    def _result(self, outcomes: Sequence[_Outcome], chained: Chained) -> Result:
        size = chained.frontier.size
        before = self._frontier.size
        answers = []
        for one in outcomes:
            append = None
            if one.recorded:
                leaf = chained.leaves[one.last_index - before]
                append = Appended(one.last_index, leaf, size, one.recorded, self._draft.now_us)
            elif one.earlier is not None and one.repeats:
                kept = one.earlier.append
                leaf = kept.leaf or chained.leaves[kept.index - before]
                append = Appended(kept.index, leaf, size, kept.entries, kept.recorded_us)
            answers.append(Answered(one.answer, append))
        last = chained.leaves[-1] if chained.leaves else b""
        self._memory.size = size
        if self._memory.log_version is not None:
            self._memory.log_version += sum(p.run_id == LOG_RUN for p in self._draft.placed)
        for (tool, key), claim in self._draft.touched_claims.items():
            self._memory.claims[(tool, key)] = claim
        for run, _ in self._draft.touched_runs():
            self._memory.runs[run.run_id] = run
        self._memory.subjects.update(
            {
                run.run_id: self._subjects.get(run.run_id, "")
                for run, _ in self._draft.touched_runs()
            }
        )
        self._memory.trim()
        return Result(answers, before, size, last, self._draft.now_us, bool(chained.leaves))


def _tells_of_before(answer: Answer) -> bool:
    """Whether an answer decided by the present state repeats what its request recorded before."""
    return isinstance(answer, LeaseGranted) or (isinstance(answer, Execute) and answer.replayed)


def _role_missing(request: Request) -> Refused:
    roles = " or ".join(role.value for role in request.command.roles)
    return Refused(
        Reason.ROLE_MISSING,
        f"{request.method} needs the role {roles}, which this credential lacks. Nothing was "
        "recorded. Use another credential, or have the role given.",
        details={"roles": roles},
    )


def _request_reused(request: Request) -> Refused:
    return Refused(
        Reason.REQUEST_REUSED,
        "This request id was used before with other content. Nothing was recorded, and what it "
        "recorded then stands. Send new content under a new request id.",
        details={"request_id": request.id},
    )


def random_request_id() -> RequestId:
    """A fresh UUIDv7, for events that the ledger makes itself."""
    return uuid7(unix_ms=time_ns() // 1_000_000, random=secrets.token_bytes(10))


def known_leaf(appending: Appending, log: Log, index: int) -> bytes | None:
    """The leaf hash stored at an index, None beyond the log's end."""
    rows = appending.get(ENTRIES, [(log.number, index)])
    return blob(rows[0][6]) if rows else None
