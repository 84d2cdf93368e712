"""The contract's machine once more, small and slow: which histories of entries are lawful.

Written from the tables of the contract (sections 4 to 6) and never from the product's code. It
reads entries as plain JSON and asserts what no sequence of commands may ever break.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ledger.core.entry import Entry
from ledger.core.events import BODIES
from ledger.core.times import parse_time

WRITES = frozenset({"IDEMPOTENT_WRITE", "NON_IDEMPOTENT_WRITE"})
AFTER_CLOSING = frozenset({"step.reconciled", "step.reconcile_proposed", "evidence.attached"})
DRIVING = frozenset(
    {
        "run.opened",
        "lease.acquired",
        "step.planned",
        "step.started",
        "step.completed",
        "step.unknown",
        "step.withdrawn",
        "run.closed",
    }
)


@dataclass
class StepModel:
    """One step as its entries tell."""

    tool: str
    version: str
    effect: str
    key: str
    supersedes: str
    after: tuple[str, ...]
    state: str = "PLANNED"
    deadlines: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    settled: set[int] = field(default_factory=set)
    decisions: list[tuple[int, str, str]] = field(default_factory=list)
    contradicted: bool = False


@dataclass
class RunModel:
    """One run as its entries tell."""

    closed: bool = False
    cancelled: bool = False
    token: int = 0
    process: str = ""
    ended: bool = True
    drivers: set[str] = field(default_factory=set)
    steps: dict[str, StepModel] = field(default_factory=dict)


class History:
    """The runs, keys and tools of one log."""

    def __init__(self) -> None:
        self.runs: dict[str, RunModel] = {}
        self.keys: dict[tuple[str, str], tuple[str, str]] = {}
        self.superseded: dict[tuple[str, str], str] = {}
        self.bound: dict[tuple[str, str], str] = {}
        self.declared_before: tuple[str, str] | None = None

    def take(self, entry: Entry) -> None:
        """The next entry; fails where it is not lawful here."""
        body = _object(entry.event["body"])
        actor = _object(entry.event["actor"])
        if entry.run_id == "_log":
            self._in_log(entry.type, body)
            return
        run = self.runs.get(entry.run_id)
        if run is None:
            assert entry.type == "run.opened"
            run = self.runs[entry.run_id] = RunModel()
        else:
            assert entry.type != "run.opened"
        assert not run.closed or entry.type in AFTER_CLOSING
        if entry.type in DRIVING and actor["id"] != "_ledger":
            run.drivers.add(actor["id"])
            if body.get("initiator"):
                run.drivers.add(body["initiator"])
        if entry.type in BODIES:
            self._apply(run, entry, body, actor)
        self.declared_before = None

    def _in_log(self, kind: str, body: dict[str, Any]) -> None:
        if kind == "tool.declared":
            at = (body["tool"], body["version"])
            assert at not in self.bound
            self.bound[at] = body["class"]
            self.declared_before = at

    def _apply(
        self, run: RunModel, entry: Entry, body: dict[str, Any], actor: dict[str, Any]
    ) -> None:
        own = actor["id"] == "_ledger"
        match entry.type:
            case "run.closed":
                assert not any(step.state in ("STARTED", "PLANNED") for step in run.steps.values())
                unknown = any(step.state == "UNKNOWN" for step in run.steps.values())
                disputed = any(step.contradicted for step in run.steps.values())
                assert not ((unknown or disputed) and body["status"] == "COMPLETED")
                assert not own or (run.cancelled and body["status"] == "CANCELLED")
                run.closed = run.ended = True
            case "lease.acquired":
                assert body["token"] == run.token + 1
                assert run.ended
                run.token, run.process, run.ended = body["token"], body["process"], False
            case "lease.released" | "lease.expired" | "lease.broken":
                assert (body["token"], run.ended) == (run.token, False)
                assert own == (entry.type == "lease.expired")
                run.ended = True
            case "cancel.requested":
                assert not run.cancelled
                run.cancelled = True
            case "step.planned":
                self._planned(run, body, entry)
            case "evidence.attached":
                if "contradiction" in body:
                    run.steps[body["step"]].contradicted = True
            case "run.opened":
                pass
            case _:
                self._step(run, entry, body, actor)

    def _planned(self, run: RunModel, body: dict[str, Any], entry: Entry) -> None:
        assert body["step"] not in run.steps
        assert set(body.get("after", ())) <= run.steps.keys()
        at = (body["tool"], body["version"])
        assert self.bound[at] == body["class"]
        if self.declared_before is not None:
            assert self.declared_before == at
        assert (body["class"] in WRITES) == bool(body.get("key"))
        run.steps[body["step"]] = StepModel(
            body["tool"],
            body["version"],
            body["class"],
            body.get("key", ""),
            body.get("supersedes", ""),
            tuple(body.get("after", ())),
        )

    def _step(
        self, run: RunModel, entry: Entry, body: dict[str, Any], actor: dict[str, Any]
    ) -> None:
        step = run.steps[body["step"]]
        match entry.type:
            case "step.started":
                self._started(run, step, body, entry)
            case "step.completed":
                self._completed(step, body)
            case "step.unknown":
                assert (step.state, step.effect in WRITES) == ("STARTED", True)
                assert body["attempt"] == len(step.tokens)
                step.state = "UNKNOWN"
            case "step.replayed":
                assert step.state in ("PLANNED", "NO_EFFECT")
                source = self.runs[body["run"]].steps[body["source"]]
                assert (source.tool, source.key) == (step.tool, step.key)
                failed = source.state == "FAILED"
                assert failed or source.state in ("SUCCEEDED", "RECONCILED_EXECUTED")
                step.state = "FAILED" if failed else "SUCCEEDED"
                assert body["state"] == step.state
            case "step.withdrawn":
                assert step.state == "PLANNED"
                step.state = "WITHDRAWN"
            case "step.reconcile_proposed":
                assert actor["id"] not in run.drivers
                assert actor["kind"] in ("human", "confirmer")
                assert body["before"] == step.state
            case "step.reconciled":
                _reconciled(run, step, entry, body, actor)
            case other:
                raise AssertionError(other)

    def _started(self, run: RunModel, step: StepModel, body: dict[str, Any], entry: Entry) -> None:
        may_start = {"PLANNED", "NO_EFFECT"}
        if step.effect not in WRITES:
            may_start.add("FAILED")
        if step.effect == "IDEMPOTENT_WRITE":
            may_start.add("UNKNOWN")
        assert step.state in may_start
        assert not run.cancelled
        assert not run.ended
        assert (body["token"], body["process"]) == (run.token, run.process)
        assert body["attempt"] == len(step.tokens) + 1
        assert body.get("key", "") == step.key
        self._claim(step, entry.run_id, body["step"])
        step.state = "STARTED"
        step.tokens.append(body["token"])
        step.deadlines.append(parse_time(body["deadline"], path="deadline"))
        assert step.deadlines[-1] > entry.recorded_at_us

    def _claim(self, step: StepModel, run_id: str, step_id: str) -> None:
        """At most one start of a key, unless the last one had no effect or is its own."""
        if not step.key:
            return
        at = (step.tool, step.key)
        for run in self.runs.values():
            for other in run.steps.values():
                if other is not step and (other.tool, other.key) == at and other.tokens:
                    assert other.state in ("NO_EFFECT", "RECONCILED_NOT_EXECUTED")
        self.keys[at] = (run_id, step_id)
        if step.supersedes:
            assert self.superseded.setdefault((step.tool, step.supersedes), step.key) == step.key
            old = self.keys[(step.tool, step.supersedes)]
            state = self.runs[old[0]].steps[old[1]].state
            assert state in ("FAILED", "RECONCILED_NOT_EXECUTED")

    def _completed(self, step: StepModel, body: dict[str, Any]) -> None:
        number, outcome = body["attempt"], body["outcome"]
        assert (number, body["token"]) == (len(step.tokens), step.tokens[-1])
        earlier_open = step.effect in WRITES and set(range(1, number)) - step.settled
        expected = outcome if outcome == "SUCCEEDED" or not earlier_open else "UNKNOWN"
        assert body["state"] == expected
        assert step.state == "STARTED" or (step.state, outcome) == ("UNKNOWN", "SUCCEEDED")
        assert not step.decisions
        step.settled |= set(range(1, number + 1)) if outcome == "SUCCEEDED" else {number}
        step.state = expected


def _reconciled(
    run: RunModel, step: StepModel, entry: Entry, body: dict[str, Any], actor: dict[str, Any]
) -> None:
    assert actor["id"] not in run.drivers
    assert actor["kind"] in ("human", "confirmer")
    assert body["before"] == step.state
    if "supersedes" in body:
        reconciled = step.state.startswith("RECONCILED_")
        assert reconciled or (step.state == "SUCCEEDED" and step.contradicted)
        assert body["supersedes"] == step.decisions[-1][0]
        assert actor["id"] not in {decider for _, _, decider in step.decisions}
    else:
        disputed = step.contradicted and step.state in ("NO_EFFECT", "FAILED", "SUCCEEDED")
        assert not step.decisions
        assert step.state == "UNKNOWN" or disputed
    unsettled = [
        deadline for at, deadline in enumerate(step.deadlines, 1) if at not in step.settled
    ]
    if body["verdict"] == "not_executed" and unsettled:
        assert entry.recorded_at_us >= max(unsettled)
    first_not_executed = not step.decisions and body["verdict"] == "not_executed"
    assert bool(body.get("supersedable")) == first_not_executed
    step.decisions.append((entry.index, body["verdict"], actor["id"]))
    executed = body["verdict"] == "executed"
    step.contradicted = False
    if step.state == "SUCCEEDED":
        assert executed
        return
    step.state = "RECONCILED_EXECUTED" if executed else "RECONCILED_NOT_EXECUTED"


def check_history(entries: Iterable[Entry]) -> History:
    """Follows a whole log; fails at the first entry that is not lawful where it stands."""
    history = History()
    for entry in entries:
        history.take(entry)
    return history


def _object(value: Any) -> dict[str, Any]:
    assert isinstance(value, dict)
    return value
