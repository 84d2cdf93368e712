"""Opening, cancelling and closing runs; permissions for tools."""

from __future__ import annotations

from ledger.core import events
from ledger.core.answers import Answer, CancelRequested, DowngradeAllowed, RunClosed, RunOpened
from ledger.core.commands import AllowDowngrade, CloseRun, OpenRun, RequestCancel
from ledger.core.decide.guards import (
    close_if_cancelled,
    driven_run,
    open_run,
    settle_dead,
)
from ledger.core.draft import Draft
from ledger.core.refusals import Reason, Refused
from ledger.core.run import Run
from ledger.core.step import Step
from ledger.core.vocabulary import RunStatus, StepState


def decide_open(draft: Draft, command: OpenRun) -> Answer:
    """A new run, or the state of an existing one of equal content."""
    run = draft.run(command.run)
    if run is None:
        if command.subject:
            draft.new_subjects[command.run] = command.subject
        draft.open_run(
            command.run,
            events.RunOpened(
                initiator=command.initiator,
                ceiling=command.ceiling,
                parent=command.parent,
                labels=command.labels,
            ),
        )
        return RunOpened(command.run)
    if run.is_closed:
        return _run_exists(run, "It is closed, so it cannot be resumed. Choose another run id.")
    if _equal_content(draft, run, command):
        return RunOpened(command.run)
    return _run_exists(
        run,
        "It was opened with other content. Choose another run id, or resume the run if it is "
        "yours.",
    )


def _equal_content(draft: Draft, run: Run, command: OpenRun) -> bool:
    return (
        run.initiator == command.initiator
        and run.ceiling is command.ceiling
        and run.parent == command.parent
        and run.labels == command.labels
        and draft.subject(run.run_id) == command.subject
    )


def _run_exists(run: Run, why: str) -> Refused:
    return Refused(
        Reason.RUN_EXISTS,
        f"A run of this id exists. Nothing was recorded. {why}",
        run=run.run_id,
    )


def decide_cancel(draft: Draft, command: RequestCancel) -> Answer:
    """Recorded once; with nobody driving and nothing started the ledger closes the run."""
    run = open_run(draft, command.run)
    if isinstance(run, Refused):
        return run
    settle_dead(draft, run)
    if not run.is_closed and not run.cancel_requested:
        draft.record(run, events.CancelRequested(reason=command.reason))
        close_if_cancelled(draft, run)
    return CancelRequested(closed=run.is_closed)


def decide_close(draft: Draft, command: CloseRun) -> Answer:
    """Refused while a step is started; withdraws what is planned. COMPLETED needs nothing that
    waits for a decision: no unknown, and no open contradiction (ADR 6)."""
    met = draft.run(command.run)
    if met is not None:
        settle_dead(draft, met)
    run = driven_run(draft, command.run, token=command.token, process=command.process)
    if isinstance(run, Refused):
        return run
    started = run.in_state(StepState.STARTED)
    if started:
        return Refused(
            Reason.STEP_STARTED,
            "A step is started, so the run cannot be closed. Nothing was recorded. Complete it or "
            "mark it unknown first.",
            run=run.run_id,
            step=started[0].id,
        )
    if command.status is RunStatus.COMPLETED:
        open_matter = next((step for step in run.steps.values() if step.is_listed), None)
        if open_matter is not None:
            return _not_completed(run, open_matter)
    for step in run.in_state(StepState.PLANNED):
        draft.record(run, events.StepWithdrawn(step=step.id, reason="run_closed"))
    draft.record(run, events.RunClosed(status=command.status, reason=command.reason))
    return RunClosed(command.status.value)


def _not_completed(run: Run, step: Step) -> Refused:
    how = "contradicted by a report" if step.contradiction else "unknown"
    return Refused(
        Reason.STEP_UNKNOWN,
        f"A step is {how}, so the run cannot be closed as COMPLETED. Nothing was recorded. Have it "
        "reconciled, or close the run with another status.",
        run=run.run_id,
        step=step.id,
        details={"state": step.state.value},
    )


def decide_downgrade(draft: Draft, command: AllowDowngrade) -> Answer:
    """A fact recorded by an admin; repeating it with another request records it again."""
    draft.record_in_log(
        events.ToolDowngradeAllowed(
            tool=command.tool,
            version=command.version,
            effect=command.effect,
            reason=command.reason,
        ),
        as_part=True,
    )
    return DowngradeAllowed()
