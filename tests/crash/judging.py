"""What must hold after any death, of the world's effects and of the ledger's word on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ledger.core.entry import Entry
from tests.crash.outside import Notes, World
from tests.support.oracle_model import History, StepModel

NEVER_RAN = frozenset({"PLANNED", "WITHDRAWN", "NO_EFFECT", "FAILED", "RECONCILED_NOT_EXECUTED"})
RAN = frozenset({"SUCCEEDED", "RECONCILED_EXECUTED"})
MAY_HAVE_RUN = frozenset({"STARTED", "UNKNOWN"})


def steps_of(entries: Sequence[Entry]) -> dict[str, dict[str, StepModel]]:
    """Every run's steps, as an independent model reads them."""
    history = History()
    for entry in entries:
        history.take(entry)
    return {run: model.steps for run, model in history.runs.items()}


def judge(entries: Sequence[Entry], world: World, notes: Notes) -> None:
    """Holds at every moment at which nobody is at work.

    No non-idempotent write happened twice, whatever step or key it was asked for by. What happened
    is never said not to have run, nor the other way round. What was acknowledged is there."""
    done = world.by_key()
    for run, steps in steps_of(entries).items():
        classes: dict[str, str] = {}
        for step in steps.values():
            assert step.state in NEVER_RAN | RAN | MAY_HAVE_RUN
            assert not (done[step.key] and step.state in NEVER_RAN), "ran, and told as not run"
            assert done[step.key] or step.state not in RAN, "told as run, and did not run"
            classes[step.key] = step.effect
        for action, keys in world.keys_of(run).items():
            assert set(keys) <= classes.keys(), "an effect that nobody was told to bring about"
            distinct = set(keys) if _all_idempotent(keys, classes) else keys
            assert len(distinct) == 1, f"{action} of {run} happened {len(keys)} times"
    for index, leaf in notes.leaves().items():
        assert index < len(entries), "an acknowledged entry is missing"
        assert entries[index].leaf_hash == leaf, "an acknowledged entry was replaced"


def judge_ended(entries: Sequence[Entry], world: World, runs: Sequence[str], steps: int) -> None:
    """The runs are closed as completed, and each of their actions happened: nothing was lost."""
    for run in runs:
        last = [entry for entry in entries if entry.run_id == run][-1]
        body = last.event["body"]
        assert isinstance(body, dict)
        assert (last.type, body["status"]) == ("run.closed", "COMPLETED")
        assert world.keys_of(run).keys() == {f"s{number}" for number in range(1, steps + 1)}


def _all_idempotent(keys: Sequence[str], classes: Mapping[str, str]) -> bool:
    return all(classes[key] == "IDEMPOTENT_WRITE" for key in keys)
