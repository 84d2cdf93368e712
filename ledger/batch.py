"""One batch of commands against one log: decided in order under the head's lock, written whole.

A batch is one transaction. A refusal is its command's answer and never the batch's failure; what
was decided in memory counts only if the transaction commits.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import time_ns
from typing import Final

from ledger.committed import Committed, Earlier, Memory
from ledger.core.answers import (
    Answer,
    Answered,
    Appended,
    Completed,
    Execute,
    LeaseGranted,
    Marked,
    Planned,
    RunOpened,
    Withdrawn,
    keep_answer,
    kept_answer,
)
from ledger.core.chain import Chained, ChainEvent, chain
from ledger.core.commands import (
    AcquireLease,
    OpenRun,
    PlanSteps,
    Request,
    StartStep,
    SweepRun,
    allowing_role,
)
from ledger.core.decide import Before, decide
from ledger.core.decide.sizes import COMMAND_EVENTS_MAX, events_at_most
from ledger.core.draft import Draft
from ledger.core.entry import read_entry
from ledger.core.errors import InvariantViolation
from ledger.core.ids import LOG_RUN, RequestId, RunId, uuid7
from ledger.core.log import Log
from ledger.core.merkle import Frontier
from ledger.core.policy import Policy
from ledger.core.refusals import Reason, Refused
from ledger.core.run import Run
from ledger.core.sealing import SealBroken
from ledger.core.step import Arguments
from ledger.core.value import value
from ledger.core.vocabulary import Role
from ledger.failures import Failure, FailureKind
from ledger.store.inline import Projections, Touched
from ledger.store.interface import Appending
from ledger.store.rows import blob
from ledger.store.tables import ENTRIES, PAYLOADS, REQUESTS, SUBJECTS, TILES, Row
from ledger.vault import Gone, Prepared, Sealed, Vault, run_of

EVENTS_MAX: Final = 4_096
"""Events in one batch (rules, section 7)."""

_TELLS_CANCEL = (Planned, Completed, Marked, Withdrawn)


@dataclass(slots=True)
class _Outcome:
    """What a command came to. `earlier` is what its request appended before, where that is told."""

    request: Request
    answer: Answer | Failure
    recorded: int = 0
    first_index: int = -1
    last_index: int = -1
    kept: bytes = b""
    earlier: Earlier | None = None


@value()
class Result:
    """A batch that is about to be committed: its answers, and the log as it then stands."""

    answers: list[Answered | Failure]
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
        policy: Policy,
    ) -> None:
        self._appending = appending
        self._log = log
        self._vault = vault
        self._projections = projections
        self._memory = memory
        self._heads: dict[RunId, bytes] = {}
        self._decided: dict[tuple[str, str], _Outcome] = {}
        self._committed = Committed(appending, log, vault, projections, memory)
        head = appending.locked_head
        self._frontier = Frontier.from_bytes(head.frontier)
        if self._frontier.size != head.size:
            raise InvariantViolation("the head's size and frontier differ")
        self._draft = Draft(
            origin=log.origin,
            size=head.size,
            now_us=now_us,
            source=self._committed,
            new_request_id=random_request_id,
            policy=policy,
        )

    def run_all(self, prepared: Sequence[Prepared]) -> Result:
        """Decides the commands in order, as many as one batch has room for, chains what was
        recorded, and writes it. The result's answers are those of the commands decided."""
        committed = self._committed
        earlier = committed.earlier(prepared)
        self._draft.runs.update(committed.load_runs(prepared))
        admitted = self._admitted(prepared)
        self._vault.settle(self._appending, self._log, admitted, committed.subjects)
        committed.take_fresh(prepared)
        committed.load_claims(prepared, self._draft.runs)
        outcomes: list[_Outcome] = []
        for one in prepared:
            if outcomes and not self._has_room(one):
                break
            outcomes.append(self._outcome(one, earlier))
        chained = self._chain()
        if self._draft.placed or self._draft.reassessed:
            self._write(outcomes, chained)
        return self._result(outcomes, chained)

    def _admitted(self, prepared: Sequence[Prepared]) -> list[Prepared]:
        """Those that may record something: what is refused for its role or for a run that does not
        exist leaves no data key behind."""
        opened = {
            one.request.command.run for one in prepared if isinstance(one.request.command, OpenRun)
        }
        return [
            one
            for one in prepared
            if one.sealed
            and allowing_role(one.request.command, one.request.caller) is not None
            and ((run := run_of(one.request.command)) in opened or self._draft.runs.get(run))
        ]

    # Deciding

    def _has_room(self, one: Prepared) -> bool:
        """Whether the batch stays within its events whatever the command comes to. The first one
        of a batch is decided in any case."""
        recorded = len(self._draft.placed)
        if recorded + COMMAND_EVENTS_MAX <= EVENTS_MAX:
            return True
        return recorded + events_at_most(self._draft, one.request.command) <= EVENTS_MAX

    def _outcome(self, one: Prepared, known: dict[tuple[str, str], Earlier]) -> _Outcome:
        """What the command came to. A stored payload that is no longer what was sealed fails the
        command that has to be compared with it, and nobody else's."""
        placed_before = len(self._draft.placed)
        try:
            return self._decide(one, known)
        except SealBroken:
            # Comparing comes before recording: the command itself has left nothing behind.
            if any(
                p.event.request_id == one.request.id for p in self._draft.placed[placed_before:]
            ):
                raise
            return _Outcome(one.request, Failure(FailureKind.STORE_UNAVAILABLE, 1_000))

    def _decide(self, one: Prepared, known: dict[tuple[str, str], Earlier]) -> _Outcome:
        request = one.request
        at = (request.caller.principal, request.id)
        decided = self._decided.get(at)
        earlier = known.get(at) if decided is None else self._as_earlier(decided)
        role = allowing_role(request.command, request.caller)
        if role is None and not isinstance(request.command, SweepRun):
            return _Outcome(request, _role_missing(request))
        if earlier is not None:
            repeated = self._repeated(one, earlier)
            if repeated is not None:
                return repeated
        self._draft.begin(request, role or Role.ADMIN, one.refs())
        before = None
        if earlier is not None:
            before = Before(earlier.first_index, kept_answer(earlier.answer))
        answer = decide(self._draft, request, before=before)
        outcome = _Outcome(request, answer)
        if before is not None and _tells_of(before.answer, answer):
            outcome.earlier = earlier
        if self._draft.recorded_for_request:
            outcome.recorded = self._draft.recorded_for_request
            outcome.first_index, outcome.last_index = self._draft.recorded_span
            outcome.kept = keep_answer(answer)
            self._decided[at] = outcome
        return outcome

    def _as_earlier(self, outcome: _Outcome) -> Earlier:
        """For a repeat within the batch; the leaf is filled in once it is known."""
        request = outcome.request
        append = Appended(outcome.last_index, b"", 0, outcome.recorded, self._draft.now_us)
        return Earlier(request.method, request.digest, append, outcome.first_index, outcome.kept)

    def _repeated(self, one: Prepared, earlier: Earlier) -> _Outcome | None:
        """The answer to a request that appended something before, or None to decide it by the
        present state."""
        request = one.request
        if earlier.method != request.method or earlier.digest != request.digest:
            return _Outcome(request, _request_reused(request))
        if isinstance(request.command, (StartStep, AcquireLease)):
            return None
        if not self._same_payloads(one, earlier):
            return _Outcome(request, _request_reused(request))
        return _Outcome(request, self._as_of_now(request, earlier), earlier=earlier)

    def _as_of_now(self, request: Request, earlier: Earlier) -> Answer:
        """The kept answer; only whether the run was asked to stop is told as it is now, for every
        later answer to a holder tells it (contract, section 4)."""
        answer = kept_answer(earlier.answer)
        run = self._draft.run(getattr(request.command, "run", ""))
        if run is not None and run.cancel_requested and isinstance(answer, _TELLS_CANCEL):
            return replace(answer, cancel_requested=True)
        return answer

    def _same_payloads(self, one: Prepared, earlier: Earlier) -> bool:
        """Payloads of a repeated request are compared by recomputing the stored commitments.

        Steps of a plan are compared with the plan; everything else has one entry whose payloads
        stand in the order of the command.
        """
        command = one.request.command
        if isinstance(command, PlanSteps):
            return self._same_plan(one, command)
        refs = self._payloads_of(earlier.append.index)
        given = list(one.sealed.values())
        return [name for name, _ in refs] == [sealed.ref.name for sealed in given] and all(
            self._is_same(payload_id, sealed)
            for (_, payload_id), sealed in zip(refs, given, strict=True)
        )

    def _same_plan(self, one: Prepared, command: PlanSteps) -> bool:
        run = self._draft.run(command.run)
        for ordinal, plan in enumerate(command.steps):
            step = None if run is None else self._draft.step(run, plan.step)
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
        fresh = self._committed.fresh(payload_id)
        if fresh is not None:
            return fresh.payload.content == sealed.payload.content
        opened = self._vault.open(self._appending, self._log, payload_id)
        return isinstance(opened, Gone) or opened.content == sealed.payload.content

    def _payloads_of(self, index: int) -> list[tuple[str, str]]:
        """(name, id) of the payloads that an entry names, one of this batch included."""
        before = self._frontier.size
        if index >= before:
            return [(ref.name, ref.id) for ref in self._draft.placed[index - before].event.payloads]
        row = self._appending.get(ENTRIES, [(self._log.number, index)])[0]
        payloads = read_entry(blob(row[5])).event["payloads"]
        if not isinstance(payloads, list):
            raise InvariantViolation("a stored entry has no payload list")
        return [(str(ref["name"]), str(ref["id"])) for ref in payloads if isinstance(ref, dict)]

    # Chaining and writing

    def _chain(self) -> Chained:
        events = [
            ChainEvent(placed.run_id, placed.version, placed.type, placed.event.to_bytes())
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
            open_tiles=self._committed.open_tiles(len(events)),
        )
        if LOG_RUN in heads and events:
            self._memory.log_leaf = heads[LOG_RUN]
        self._heads = heads
        return chained

    def _write(self, outcomes: Sequence[_Outcome], chained: Chained) -> None:
        draft, log, appending = self._draft, self._log, self._appending
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
        if draft.placed:
            appending.set_head(
                size=chained.frontier.size,
                frontier=chained.frontier.to_bytes(),
                time_us=draft.now_us,
            )

    def _payload_rows(self) -> list[Row]:
        rows: list[Row] = []
        for placed in self._draft.placed:
            for ref in placed.event.payloads:
                sealed = self._committed.fresh(ref.id)
                if sealed is None:
                    raise InvariantViolation("an event names a payload that was not sealed")
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
                one.kept,
            )
            for one in outcomes
            if one.recorded
        ]

    def _result(self, outcomes: Sequence[_Outcome], chained: Chained) -> Result:
        memory = self._memory
        size = chained.frontier.size
        before = self._frontier.size
        answers: list[Answered | Failure] = []
        for one in outcomes:
            if isinstance(one.answer, Failure):
                answers.append(one.answer)
                continue
            append = None
            if one.recorded:
                leaf = chained.leaves[one.last_index - before]
                append = Appended(one.last_index, leaf, size, one.recorded, self._draft.now_us)
            elif one.earlier is not None:
                kept = one.earlier.append
                leaf = kept.leaf or chained.leaves[kept.index - before]
                append = Appended(kept.index, leaf, size, kept.entries, kept.recorded_us)
            answers.append(
                Answered(one.answer, append, self._opened(one.answer), self._draft.now_us)
            )
        last = chained.leaves[-1] if chained.leaves else b""
        memory.frontier = chained.frontier.to_bytes()
        if memory.log_version is not None:
            memory.log_version += sum(p.run_id == LOG_RUN for p in self._draft.placed)
        for (tool, key), claim in self._draft.touched_claims.items():
            memory.claims[(tool, key)] = claim
        for run, _ in self._draft.touched_runs():
            if run.is_closed:
                # From now on it is read step by step.
                memory.runs.pop(run.run_id, None)
            else:
                memory.runs[run.run_id] = run
        memory.subjects.update(self._draft.new_subjects)
        memory.trim()
        return Result(answers, size, last, self._draft.now_us, bool(chained.leaves))

    def _opened(self, answer: Answer) -> Run | None:
        if not isinstance(answer, RunOpened):
            return None
        run = self._draft.runs.get(answer.run)
        return None if run is None else run.without_steps()


def _tells_of(before: Answer, answer: Answer) -> bool:
    """Whether an answer decided by the present state repeats what its request recorded before."""
    if isinstance(answer, LeaseGranted):
        return isinstance(before, LeaseGranted) and before.token == answer.token
    return isinstance(answer, Execute) and answer.replayed


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
