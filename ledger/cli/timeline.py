"""A run's entries as a story: what happened when, who did it, and where each step stands.

Pure. It reads nothing but the entries' own bytes, so that a story told by a server and one told
from an exported folder are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from ledger.core import events
from ledger.core.body import Body
from ledger.core.entry import Entry
from ledger.core.vocabulary import LeaseEnd, Outcome, StepState, Verdict

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Moment:
    """One entry. `state` is where the step, or the run, stands after it; empty if it says nothing
    of that.
    """

    index: int
    at: datetime
    type: str
    step: str
    state: str
    what: str
    who: str


@dataclass(slots=True)
class StepStory:
    """A step as its entries leave it."""

    step: str
    tool: str = ""
    version: str = ""
    effect: str = ""
    key: str = ""
    supersedes: str = ""
    state: str = ""
    attempts: int = 0
    decided_by: str = ""
    decision: int | None = None
    contradiction: bool = False


@dataclass(slots=True)
class RunStory:
    """A run as its entries tell it. `status` is OPEN until it is closed."""

    run: str
    status: str = "OPEN"
    reason: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    moments: list[Moment] = field(default_factory=list)
    steps: dict[str, StepStory] = field(default_factory=dict)

    def step(self, step: str) -> StepStory:
        """The step's story so far."""
        return self.steps.setdefault(step, StepStory(step))


def tell(run: str, entries: Iterable[Entry]) -> RunStory:
    """The story of a run from its entries, in their order."""
    story = RunStory(run)
    for entry in entries:
        step, state, what = _told(story, entry)
        at = _EPOCH + timedelta(microseconds=entry.recorded_at_us)
        story.moments.append(Moment(entry.index, at, entry.type, step, state, what, who_of(entry)))
    return story


def who_of(entry: Entry) -> str:
    """The actor: its id, and its kind where the id does not say it."""
    actor = entry.event["actor"]
    if not isinstance(actor, dict):
        return ""
    name, kind = str(actor["id"]), str(actor["kind"])
    return name if kind in (name, "system") else f"{name} ({kind})"


def body_of(entry: Entry) -> Body | None:
    """The entry's body as its class; None for a type this build does not know."""
    known = events.BODIES.get(entry.type)
    members = entry.event["body"]
    if known is None or not isinstance(members, dict):
        return None
    return known.from_json(members)


def _told(story: RunStory, entry: Entry) -> tuple[str, str, str]:
    """(step, state after, what happened) of one entry; notes it in the story."""
    body = body_of(entry)
    match body:
        case (
            events.StepPlanned()
            | events.StepStarted()
            | events.StepCompleted()
            | events.StepUnknown()
            | events.StepReplayed()
            | events.StepWithdrawn()
            | events.StepReconcileProposed()
            | events.StepReconciled()
        ):
            state, what = _step_told(story.step(body.step), body, entry)
            story.step(body.step).state = state
            return body.step, state, what
        case events.EvidenceAttached():
            return body.step, "", _evidence_told(story, body)
        case None:
            return "", "", f"{entry.type} (not understood by this version)"
        case _:
            return "", *_run_told(story, body)


def _run_told(story: RunStory, body: Body) -> tuple[str, str]:
    match body:
        case events.RunOpened():
            story.labels = body.labels
            return "OPEN", "opened" + _for("for", body.initiator) + _for("by run", body.parent)
        case events.RunClosed():
            story.status, story.reason = body.status.value, body.reason
            return story.status, "closed" + _for("because", body.reason)
        case events.LeaseAcquired():
            return "", f"lease {body.token} given to {body.holder}"
        case events.LeaseReleased():
            return "", f"lease {body.token} given back" + _for("because", body.stop_reason)
        case events.LeaseExpired():
            return "", f"lease {body.token} {LeaseEnd.EXPIRED.value}, its holder was silent"
        case events.LeaseBroken():
            return "", f"lease {body.token} taken away" + _for("because", body.reason)
        case events.CancelRequested():
            return "", "asked to stop" + _for("because", body.reason)
        case _:
            return "", body.TYPE


def _step_told(step: StepStory, body: Body, entry: Entry) -> tuple[str, str]:
    match body:
        case events.StepPlanned():
            step.tool, step.version, step.effect = body.tool, body.version, body.effect.value
            step.key, step.supersedes = body.key, body.supersedes
            instead = ", in place of a key that was given up" if body.supersedes else ""
            return StepState.PLANNED.value, f"{body.tool} {body.version}{instead}"
        case events.StepStarted():
            step.attempts = body.attempt
            return StepState.STARTED.value, f"attempt {body.attempt} under lease {body.token}"
        case events.StepCompleted():
            said = {
                Outcome.SUCCEEDED: "ended well",
                Outcome.FAILED: "definitely failed",
                Outcome.NO_EFFECT: "refused before any effect",
            }[body.outcome]
            return body.state.value, f"attempt {body.attempt} {said}" + _for("because", body.cause)
        case events.StepUnknown():
            return (
                StepState.UNKNOWN.value,
                f"attempt {body.attempt}: nobody can say what came of it ({body.cause})",
            )
        case events.StepReplayed():
            return body.state.value, f"answered from step {body.source} of run {body.run}"
        case events.StepReconcileProposed():
            verdict = body.verdict.value.replace("_", " ")
            return step.state, f"proposed: {verdict} ({body.reason_code}), for another to confirm"
        case events.StepReconciled():
            step.decided_by, step.decision = who_of(entry), entry.index
            executed = body.verdict is Verdict.EXECUTED
            state = StepState.RECONCILED_EXECUTED if executed else StepState.RECONCILED_NOT_EXECUTED
            if body.before is StepState.SUCCEEDED:
                state = body.before
            step.contradiction = False
            verdict = "executed" if executed else "not executed"
            again = f", in place of decision {body.supersedes}" if body.supersedes >= 0 else ""
            return state.value, f"decided: {verdict} ({body.reason_code}){again}"
        case events.StepWithdrawn():
            return StepState.WITHDRAWN.value, "withdrawn" + _for("because", body.reason)
        case _:
            return step.state, body.TYPE


def _evidence_told(story: RunStory, body: events.EvidenceAttached) -> str:
    said = f"evidence: {body.kind}"
    if body.dropped:
        said += f", {body.dropped} best-effort records were dropped"
    if body.outcome:
        said += f", says {body.outcome} of attempt {body.attempt}"
    if body.why:
        said += f" ({body.why})"
    if body.contradiction:
        said += ", CONTRADICTS what was settled"
        if body.step:
            story.step(body.step).contradiction = True
    return said


def _for(word: str, name: str) -> str:
    return f" {word} {name}" if name else ""
