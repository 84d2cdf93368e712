"""A run's story, told from its entries alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ledger.cli.timeline import Moment, RunStory, tell
from ledger.core import events
from ledger.core.body import Body
from ledger.core.vocabulary import EffectClass, Outcome, RunStatus, StepState, Verdict
from tests.unit.cli.story_entries import RUNTIME, START_US, Actor, entries_of

LEDGER: Actor = ("_ledger", "system", "system")
REVIEWER: Actor = ("anna-7", "human", "reconcile")
T = START_US + 60_000_000
PLANNED = events.StepPlanned(
    step="s1", tool="refund", version="2", effect=EffectClass.NON_IDEMPOTENT_WRITE, key="k1"
)
STARTED = events.StepStarted(step="s1", attempt=1, token=1, process="p" * 16, deadline=T, key="k1")


def _story(*bodies: tuple[Body, Actor]) -> RunStory:
    return tell("r", entries_of(bodies))


def _last(*bodies: tuple[Body, Actor]) -> Moment:
    return _story(*bodies).moments[-1]


def test_a_story_names_every_step_with_its_state_attempts_and_decider() -> None:
    story = _story(
        (events.RunOpened(labels=(("shop", "north"),)), RUNTIME),
        (events.LeaseAcquired(token=1, holder="agent", process="p" * 16, expires_at=T), RUNTIME),
        (PLANNED, RUNTIME),
        (STARTED, RUNTIME),
        (events.StepUnknown(step="s1", attempt=1, token=1, cause="timeout"), LEDGER),
        (
            events.StepReconciled(
                step="s1",
                verdict=Verdict.EXECUTED,
                reason_code="receipt_found",
                expected_version=4,
                before=StepState.UNKNOWN,
                attempt=1,
            ),
            REVIEWER,
        ),
        (events.RunClosed(status=RunStatus.COMPLETED, reason="done"), RUNTIME),
    )
    assert (story.status, story.reason) == ("COMPLETED", "done")
    assert story.labels == (("shop", "north"),)
    (step,) = story.steps.values()
    assert (step.state, step.attempts) == ("RECONCILED_EXECUTED", 1)
    assert step.decided_by == "anna-7 (human)"
    assert (step.tool, step.version, step.effect) == ("refund", "2", "NON_IDEMPOTENT_WRITE")
    states = [moment.state for moment in story.moments]
    assert states == [
        "OPEN",
        "",
        "PLANNED",
        "STARTED",
        "UNKNOWN",
        "RECONCILED_EXECUTED",
        "COMPLETED",
    ]


def test_a_moment_has_its_index_its_exact_time_and_who() -> None:
    moment = _last((events.RunOpened(), RUNTIME), (PLANNED, RUNTIME))
    assert moment.index == 1
    assert moment.at == datetime(2026, 1, 1, 0, 0, 1, 123456, tzinfo=UTC)
    assert moment.who == "runtime"


def test_who_says_the_kind_where_the_id_does_not() -> None:
    assert _last((events.RunOpened(), ("bot-7", "runtime", "drive"))).who == "bot-7 (runtime)"
    assert _last((events.LeaseExpired(token=1), LEDGER)).who == "_ledger"


@pytest.mark.parametrize(
    ("outcome", "state", "words"),
    [
        (Outcome.SUCCEEDED, StepState.SUCCEEDED, "attempt 1 ended well"),
        (Outcome.FAILED, StepState.FAILED, "attempt 1 definitely failed"),
        (Outcome.NO_EFFECT, StepState.NO_EFFECT, "attempt 1 refused before any effect"),
        (Outcome.FAILED, StepState.UNKNOWN, "attempt 1 definitely failed"),
    ],
)
def test_an_attempts_end_says_what_was_reported_and_where_the_step_stands(
    outcome: Outcome, state: StepState, words: str
) -> None:
    ended = events.StepCompleted(step="s1", attempt=1, token=1, outcome=outcome, state=state)
    moment = _last((PLANNED, RUNTIME), (STARTED, RUNTIME), (ended, RUNTIME))
    assert (moment.state, moment.what) == (state.value, words)


def test_a_decision_says_what_it_replaces() -> None:
    decision = events.StepReconciled(
        step="s1",
        verdict=Verdict.NOT_EXECUTED,
        reason_code="no_receipt",
        expected_version=4,
        before=StepState.RECONCILED_EXECUTED,
        attempt=1,
        supersedes=4,
    )
    moment = _last((PLANNED, RUNTIME), (decision, REVIEWER))
    assert moment.state == "RECONCILED_NOT_EXECUTED"
    assert moment.what == "decided: not executed (no_receipt), in place of decision 4"


def test_a_contradiction_is_not_overlooked() -> None:
    late = events.EvidenceAttached(
        kind="late_completion",
        step="s1",
        attempt=1,
        outcome="SUCCEEDED",
        why="LATE",
        contradiction=True,
    )
    story = _story((PLANNED, RUNTIME), (late, RUNTIME))
    assert story.steps["s1"].contradiction
    assert "CONTRADICTS" in story.moments[-1].what
    assert "says SUCCEEDED of attempt 1 (LATE)" in story.moments[-1].what


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (events.LeaseReleased(token=3, stop_reason="budget"), "lease 3 given back because budget"),
        (events.LeaseExpired(token=3), "lease 3 expired, its holder was silent"),
        (events.LeaseBroken(token=3, reason="stuck"), "lease 3 taken away because stuck"),
        (events.CancelRequested(reason="user"), "asked to stop because user"),
        (events.StepWithdrawn(step="s1", reason="asked_before"), "withdrawn because asked_before"),
        (
            events.StepReplayed(
                step="s1", key="k", state=StepState.SUCCEEDED, settled_by=3, run="q", source="s9"
            ),
            "answered from step s9 of run q",
        ),
        (
            events.EvidenceAttached(kind="gap", dropped=4),
            "evidence: gap, 4 best-effort records were dropped",
        ),
    ],
)
def test_every_kind_of_entry_is_told_in_words(body: Body, words: str) -> None:
    assert _last((events.RunOpened(), RUNTIME), (body, RUNTIME)).what == words


def test_every_event_type_has_words_of_its_own() -> None:
    told = {type(body).TYPE for body in _one_of_each()}
    assert told == {name for name in events.BODIES if not name.startswith(("access.", "tool."))}
    for body in _one_of_each():
        what = _last((events.RunOpened(), RUNTIME), (body, RUNTIME)).what
        assert what
        assert what != body.TYPE


def _one_of_each() -> list[Body]:
    return [
        events.RunOpened(),
        events.RunClosed(status=RunStatus.FAILED),
        events.LeaseAcquired(token=1, holder="a", process="p" * 16, expires_at=T),
        events.LeaseReleased(token=1),
        events.LeaseExpired(token=1),
        events.LeaseBroken(token=1, reason="x"),
        PLANNED,
        STARTED,
        events.StepCompleted(
            step="s1", attempt=1, token=1, outcome=Outcome.SUCCEEDED, state=StepState.SUCCEEDED
        ),
        events.StepUnknown(step="s1", attempt=1, token=1, cause="timeout"),
        events.StepReplayed(
            step="s1", key="k", state=StepState.FAILED, settled_by=1, run="q", source="s"
        ),
        events.StepWithdrawn(step="s1"),
        events.StepReconcileProposed(
            step="s1",
            verdict=Verdict.EXECUTED,
            reason_code="x",
            expected_version=1,
            before=StepState.UNKNOWN,
            attempt=1,
        ),
        events.StepReconciled(
            step="s1",
            verdict=Verdict.EXECUTED,
            reason_code="x",
            expected_version=1,
            before=StepState.UNKNOWN,
            attempt=1,
        ),
        events.EvidenceAttached(kind="note"),
        events.CancelRequested(),
    ]
