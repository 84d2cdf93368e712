"""The next entries of a log while a batch is being decided.

A draft holds the runs, claims and tools that the batch reads, brings each event it records into
them at once, so that later commands of the batch see it, and remembers what was touched. It is kept
only if the transaction that writes it commits; otherwise everything in it is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from ledger.core import events
from ledger.core.answers import Answered
from ledger.core.body import Body
from ledger.core.claims import Claim, Tool
from ledger.core.commands import Caller, Request, Slot
from ledger.core.errors import InvariantViolation
from ledger.core.ids import LOG_RUN, Origin, RequestId, RunId
from ledger.core.policy import Policy
from ledger.core.run import Run
from ledger.core.run_events import (
    LEDGER,
    RUN_EVENTS,
    Actor,
    LogEvent,
    RunEvent,
    SealedRef,
)
from ledger.core.step import Arguments, Step
from ledger.core.value import value
from ledger.core.vocabulary import Role, Verdict

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SYSTEM_DIGEST: Final = "0" * 64
"""`request.digest` of an event that the ledger made itself: there was no request to digest."""


class Source(Protocol):
    """Where a draft reads what was committed before. Implementations read under the head lock."""

    def run(self, run_id: RunId) -> Run | None:
        """The run, or None if the tenant has none of that id. A closed one need not be whole."""

    def load_step(self, run: Run, step_id: str) -> None:
        """Adds the step to a run that is not whole, if it has one of that id."""

    def claim(self, tool: str, key: str) -> Claim | None:
        """The claim on a key, or None if it is free."""

    def tool(self, name: str, version: str) -> Tool:
        """The tool with at least that version loaded. One object a name for the whole batch."""

    def replays(self, tool: str, key: str) -> list[tuple[str, str]]:
        """(run, step) of steps that were answered from the key, at most 32."""

    def fingerprint_under(self, key_id: str, tool: str, arguments: Arguments) -> bytes | None:
        """The arguments' keyed digest under another data key. None if either was erased."""

    def is_erased(self, key_id: str) -> bool:
        """Whether a data key was destroyed."""

    def is_same_payload(self, payload_id: str, sealed: SealedRef) -> bool:
        """Whether a stored payload has the bytes of one that was just sealed: the stored
        commitment is recomputed with its own salt. False if the stored one was erased."""

    def log_version(self) -> int:
        """How many entries the reserved run `_log` has."""

    def subject(self, run_id: RunId) -> str:
        """The run's data subject, empty if none was given."""


@value()
class Placed:
    """An event with its place in its run, in the order of the log."""

    run_id: RunId
    version: int
    type: str
    event: RunEvent


@dataclass(slots=True)
class _Context:
    actor: Actor
    request_id: RequestId
    digest: str
    sealed: Mapping[Slot, SealedRef]
    trace: str
    part: int = 0
    first: int = -1
    last: int = -1

    def next_part(self, index: int) -> None:
        """The event at `index` was recorded under the request's own id."""
        if self.part == 0:
            self.first = index
        self.last = index
        self.part += 1


class Draft:
    """One batch of decisions on one log at one ledger time."""

    def __init__(
        self,
        *,
        origin: Origin,
        size: int,
        now_us: int,
        source: Source,
        new_request_id: Callable[[], RequestId],
        policy: Policy | None = None,
    ) -> None:
        self.origin = origin
        self.now_us = now_us
        self.policy = policy or Policy()
        self.placed: list[Placed] = []
        self.runs: dict[str, Run | None] = {}
        self.reassessed: dict[str, Run] = {}
        self._touched: dict[str, set[str]] = {}
        self.touched_claims: dict[tuple[str, str], Claim] = {}
        self.touched_tools: set[tuple[str, str]] = set()
        self.new_replays: list[tuple[str, str, str, str, int]] = []
        self.new_subjects: dict[str, str] = {}
        self._claims: dict[tuple[str, str], Claim | None] = {}
        self.tools: dict[str, Tool] = {}
        self._source = source
        self._size = size
        self._new_request_id = new_request_id
        self._timestamp = _EPOCH + timedelta(microseconds=now_us)
        self._log_version: int | None = None
        self._causes: dict[tuple[str, str], tuple[RequestId, int]] = {}
        self._context: _Context | None = None

    # What is committed, and what this batch added to it

    def run(self, run_id: str) -> Run | None:
        """The run as it stands in this batch."""
        if run_id not in self.runs:
            self.runs[run_id] = self._source.run(RunId(run_id))
        return self.runs[run_id]

    def step(self, run: Run, step_id: str) -> Step | None:
        """The step as it stands in this batch, also of a closed run, whose steps are read when they
        are asked for."""
        if step_id not in run.steps and not run.is_whole:
            self._source.load_step(run, step_id)
        return run.steps.get(step_id)

    def claim(self, *, tool: str, key: str) -> Claim | None:
        """The claim on a key as it stands in this batch."""
        at = (tool, key)
        if at not in self._claims:
            self._claims[at] = self._source.claim(tool, key)
        return self._claims[at]

    def tool(self, *, name: str, version: str) -> Tool:
        """The tool's bindings as they stand in this batch, with that version's."""
        found = self.tools.get(name)
        if found is None or version not in found.loaded:
            found = self.tools[name] = self._source.tool(name, version)
        return found

    def subject(self, run_id: str) -> str:
        """The run's data subject."""
        if run_id in self.new_subjects:
            return self.new_subjects[run_id]
        return self._source.subject(RunId(run_id))

    def is_erased(self, arguments: Arguments) -> bool:
        """Whether the data key of those arguments was destroyed."""
        return self._source.is_erased(arguments.key_id)

    def same_arguments(self, *, tool: str, first: Arguments, other: Arguments) -> bool | None:
        """Whether both are the same bytes for the same tool; None if that cannot be told because
        either was erased."""
        if self._source.is_erased(first.key_id) or self._source.is_erased(other.key_id):
            return None
        if first.payload_id == other.payload_id:
            return True
        if first.key_id == other.key_id:
            return first.fingerprint == other.fingerprint
        under = self._source.fingerprint_under(first.key_id, tool, other)
        return None if under is None else under == first.fingerprint

    def is_same_payload(self, payload_id: str, slot: Slot) -> bool:
        """Whether a stored payload, empty id for none, has the bytes of the request's at `slot`."""
        sealed = self.sealed(slot)
        if sealed is None or not payload_id:
            return sealed is None and not payload_id
        return self._source.is_same_payload(payload_id, sealed)

    def twins(self, run: Run, step: Step) -> list[Step]:
        """Other writes of the run with the same tool and arguments, in the order of planning."""
        run.require_whole()
        found: set[str] = set()
        for key_id in run.argument_keys:
            if key_id == step.arguments.key_id:
                under: bytes | None = step.arguments.fingerprint
            else:
                under = self._source.fingerprint_under(key_id, step.tool, step.arguments)
            if under is not None:
                found.update(run.by_fingerprint.get((step.tool, under), ()))
        found.discard(step.id)
        return sorted((run.steps[twin] for twin in found), key=lambda s: s.ordinal)

    def replays(self, *, tool: str, key: str) -> list[tuple[str, str]]:
        """(run, step) of steps that were answered from a key, at most 32."""
        own = [(run, step) for t, k, run, step, _ in self.new_replays if (t, k) == (tool, key)]
        return [*self._source.replays(tool, key), *own][:32]

    @property
    def next_index(self) -> int:
        """The index that the next recorded event will have."""
        return self._size + len(self.placed)

    # Recording

    def begin(self, request: Request, role: Role, sealed: Mapping[Slot, SealedRef]) -> None:
        """What is recorded from now on is recorded for this request."""
        caller: Caller = request.caller
        self._causes.clear()
        self._context = _Context(
            Actor(caller.principal, caller.kind, caller.auth, role.value),
            request.id,
            request.digest.hex(),
            sealed,
            request.trace,
        )

    def sealed(self, slot: Slot) -> SealedRef | None:
        """The request's payload at a slot, as an entry will name it."""
        return self._now.sealed.get(slot)

    @property
    def role(self) -> Role:
        """The role that allowed the present request."""
        return Role(self._now.actor.role)

    @property
    def recorded_for_request(self) -> int:
        """How many events were recorded under the present request's own id."""
        return self._now.part

    @property
    def recorded_span(self) -> tuple[int, int]:
        """The indexes of the first and last event under the present request's own id, which others
        may stand between; only where there are any."""
        return self._now.first, self._now.last

    def record(self, run: Run, body: Body, payloads: Sequence[SealedRef] = ()) -> RunEvent:
        """Records an event of the caller, the next part of its request."""
        now = self._now
        event = self._place(run, body, now.actor, now.request_id, now.digest, now.part, payloads)
        now.next_part(event.index)
        return event

    def record_own(self, run: Run, body: Body, *, cause: str) -> RunEvent:
        """Records an event that the ledger makes itself. What one command makes due on a run for
        one cause stands under one random request id, in parts (rules, section 10)."""
        made = self._causes.get((run.run_id, cause))
        request_id, part = made or (self._new_request_id(), 0)
        self._causes[(run.run_id, cause)] = (request_id, part + 1)
        return self._place(run, body, LEDGER, request_id, SYSTEM_DIGEST, part, ())

    def open_run(self, run_id: RunId, body: events.RunOpened) -> Run:
        """Records the first event of a new run of the caller."""
        run = Run.blank(f"{self.origin}#{run_id}", self._timestamp)
        self.runs[run_id] = run
        self.record(run, body)
        return run

    def record_in_log(self, body: Body, *, as_part: bool) -> int:
        """Records an event of the caller in the reserved run `_log` and answers its index.

        `as_part`: under the request's own id; otherwise under a random one, because it stands
        beside the request's events and is none of its parts.
        """
        now = self._now
        if self._log_version is None:
            self._log_version = self._source.log_version()
        index = self.next_index
        event = LogEvent(
            originator_id=f"{self.origin}#{LOG_RUN}",
            originator_version=self._log_version + 1,
            timestamp=self._timestamp,
            body=body,
            actor=now.actor,
            request_id=now.request_id if as_part else self._new_request_id(),
            digest=now.digest,
            part=now.part if as_part else 0,
            index=index,
            recorded_us=self.now_us,
            trace=now.trace,
        )
        self.placed.append(Placed(LOG_RUN, self._log_version, body.TYPE, event))
        self._log_version += 1
        if as_part:
            now.next_part(index)
        self.fold_tool(body, index=index)
        return index

    def touched_runs(self) -> Iterator[tuple[Run, list[Step]]]:
        """The runs that this batch changed, each with the steps that it changed."""
        for run_id, steps in self._touched.items():
            run = self.runs[run_id]
            if run is not None:
                yield run, [run.steps[step] for step in sorted(steps)]

    def _place(
        self,
        run: Run,
        body: Body,
        actor: Actor,
        request_id: RequestId,
        digest: str,
        part: int,
        payloads: Sequence[SealedRef],
    ) -> RunEvent:
        event = RUN_EVENTS[body.TYPE](
            originator_id=run.id,
            originator_version=run.version + 1,
            timestamp=self._timestamp,
            body=body,
            actor=actor,
            request_id=request_id,
            digest=digest,
            part=part,
            index=self.next_index,
            recorded_us=self.now_us,
            payloads=payloads,
            trace=self._context.trace if self._context else "",
        )
        self.placed.append(Placed(run.run_id, run.version, body.TYPE, event))
        self.fold(run, event)
        return event

    # Folding: what was just recorded here, or read from the log by a rebuild

    def fold(self, run: Run, event: RunEvent) -> None:
        """Brings the next event of a run into it and into the claims that its steps hold."""
        touched = self._touched.setdefault(run.run_id, set())
        event.mutate(run)
        step = getattr(event.body, "step", "")
        if step:
            touched.add(step)
        self._fold_claims(run, event)

    def fold_tool(self, body: Body, *, index: int) -> None:
        """Brings an event of the reserved run `_log` into the tool that it binds, if it does."""
        if not isinstance(body, (events.ToolDeclared, events.ToolDowngradeAllowed)):
            return
        tool = self.tool(name=body.tool, version=body.version)
        change = tool.bind if isinstance(body, events.ToolDeclared) else tool.allow
        change(version=body.version, effect=body.effect, index=index)
        self.touched_tools.add((body.tool, body.version))

    def _fold_claims(self, run: Run, event: RunEvent) -> None:
        body = event.body
        if not event.TYPE.startswith("step.") and not isinstance(body, events.EvidenceAttached):
            return
        if not body.step:
            return
        step = run.steps[body.step]
        if not step.key:
            return
        if isinstance(body, events.StepStarted):
            self._claim_for(run, step)
            return
        claim = self.claim(tool=step.tool, key=step.key)
        if claim is None:
            return
        owned = claim.is_owned_by(run=run.run_id, step=step.id)
        if isinstance(body, (events.StepCompleted, events.StepUnknown)) and owned:
            claim.follow(step)
        elif isinstance(body, events.StepReconciled) and owned:
            claim.follow_decision(step, supersedable=body.supersedable)
        elif isinstance(body, events.StepReconciled):
            # An earlier owner, whose report came after a later one had started under the key. If he
            # did execute it, the key is spent whatever comes of the later start.
            claim.settle_contradiction(run=run.run_id, step=step.id)
            if body.verdict is Verdict.EXECUTED:
                claim.contradict(run=run.run_id, step=step.id)
        elif isinstance(body, events.EvidenceAttached) and body.contradiction:
            claim.contradict(run=run.run_id, step=step.id)
        elif isinstance(body, events.StepReplayed):
            self.new_replays.append((step.tool, step.key, run.run_id, step.id, event.index))
            return
        else:
            return
        self.touched_claims[(claim.tool, claim.key)] = claim

    def _claim_for(self, run: Run, step: Step) -> None:
        at = (step.tool, step.key)
        claim = self.claim(tool=step.tool, key=step.key)
        if claim is None:
            claim = Claim(
                step.tool,
                step.key,
                run.run_id,
                step.id,
                step.state,
                step.arguments,
                step.effect,
            )
            self._claims[at] = claim
        claim.run, claim.step, claim.effect = run.run_id, step.id, step.effect
        claim.follow(step)
        self.touched_claims[at] = claim
        if step.supersedes:
            old = self.claim(tool=step.tool, key=step.supersedes)
            if old is None:
                raise InvariantViolation("a start superseded a key that nobody claimed")
            old.superseded_by = (step.key, run.run_id, step.id)
            claim.supersedes = claim.supersedes or step.supersedes
            self.touched_claims[(old.tool, old.key)] = old

    @property
    def _now(self) -> _Context:
        if self._context is None:
            raise InvariantViolation("something was recorded before a request began")
        return self._context


@value()
class Decided:
    """What a command came to: its answer, and how many events stand under its request id."""

    answered: Answered
    recorded: int
