"""How many events a command may come to, before it is decided: what a batch has room for.

A step that is planned or started is written once more at most by whatever ends its run or its
holder, so a limit on those bounds closing, takeover and sweep alike.
"""

from __future__ import annotations

from typing import Final

from ledger.core.commands import OPEN_STEPS_MAX, Command, PlanSteps, StartStep
from ledger.core.draft import Draft
from ledger.core.run import Run
from ledger.core.vocabulary import StepState

_BESIDES: Final = 4
"""A lease's end, the command's own event, a cancel and `run.closed`."""

COMMAND_EVENTS_MAX: Final = 2 * (OPEN_STEPS_MAX + _BESIDES)
"""What any command comes to at most: a plan that declares a tool for each step, or a start that
ends two runs. Runs planned before there was a limit may hold more."""


def events_at_most(draft: Draft, command: Command) -> int:
    """An upper bound of the events that `command` records, as its runs stand in the draft."""
    if isinstance(command, PlanSteps):
        return 2 * len(command.steps)
    run = draft.run(getattr(command, "run", ""))
    if run is None:
        return _BESIDES
    most = run.open_steps + _BESIDES
    if isinstance(command, StartStep):
        owner = _owner_of_key(draft, run, command)
        most += owner.open_steps + _BESIDES if owner is not None and owner is not run else 0
    return most


def _owner_of_key(draft: Draft, run: Run, command: StartStep) -> Run | None:
    """The run whose dead holder a start may meet on its key."""
    step = run.steps.get(command.step)
    if step is None or not step.key:
        return None
    claim = draft.claim(tool=step.tool, key=step.key)
    if claim is None or claim.state is not StepState.STARTED:
        return None
    return draft.run(claim.run)
