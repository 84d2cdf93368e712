"""The crash matrix: who dies, in which window, at which occurrence, on which store.

Real processes, real gRPC, real SIGKILL of the client, of its server, or of both. A runtime drives
runs of three non-idempotent writes; what died starts again, a confirmer settles what is unknown by
asking the world, and in the end every run is closed and each of its writes happened once. Each
death proves by the log that it came in the window that it was meant for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.crash.counting import MATRIX, Counts
from tests.crash.deaths import Death, Role, Victim, Window
from tests.crash.judging import judge
from tests.crash.outside import Notes, World
from tests.crash.supervisor import Supervisor

pytestmark = pytest.mark.timeout(120)

OCCURRENCES: Final = 3
EVERY_DAY: Final = {
    (Window.START_COMMITTED, Victim.SERVER),
    (Window.AFTER_EFFECT, Victim.CLIENT),
    (Window.COMPLETE_COMMITTED, Victim.CLIENT),
}
CELLS: Final = [
    pytest.param(
        window,
        victim,
        id=f"{window.name}-{victim.name}",
        marks=() if (window, victim) in EVERY_DAY else pytest.mark.long,
    )
    for window in Window
    for victim in Victim
    if window.role is not Role.SWEEP or victim is not Victim.BOTH
]
CLOSING: Final = (Window.CLOSE_BEGUN, Window.CLOSE_COMMITTED)
TAKING_OVER: Final = (Window.TAKEOVER_BEGUN, Window.TAKEOVER_COMMITTED)

Plot = tuple[Sequence[str], Sequence[Death]]
"""Runs, and the deaths while they are driven."""


def plots(window: Window, victim: Victim) -> list[Plot]:
    """How a window is passed three times.

    A step's windows: three runs, in each of which the death comes at another step. A close: three
    times three runs, as one process closes them. Take-over, sweep and decision need somebody who
    died in a tool, before its effect or after, and so come three times in one run.
    """
    if window in CLOSING:
        return [
            ([f"run-{nth}-{run}" for run in range(OCCURRENCES)], [Death(window, victim, nth=nth)])
            for nth in range(1, OCCURRENCES + 1)
        ]
    if window in TAKING_OVER or window.role is not Role.RUNTIME:
        tools = (Window.AFTER_EFFECT, Window.BEFORE_EFFECT, Window.AFTER_EFFECT)
        deaths = [
            death for tool in tools for death in (Death(tool, Victim.CLIENT), Death(window, victim))
        ]
        return [(["one"], deaths)]
    return [([f"run-{nth}"], [Death(window, victim, nth=nth)]) for nth in range(1, OCCURRENCES + 1)]


@pytest.mark.parametrize(("window", "victim"), CELLS)
def test_each_write_happens_once_through_deaths_in_this_window(
    supervisor: Supervisor,
    window: Window,
    victim: Victim,
    record_property: Callable[[str, object], None],
) -> None:
    made = plots(window, victim)
    for runs, deaths in made:
        left = supervisor.drive(runs, deaths)
        assert not left, "a death did not come"
    entries = supervisor.verify()
    came = Counter(supervisor.happened)
    assert sum(n for death, n in came.items() if death.window is window) == OCCURRENCES
    effects = supervisor.world.by_key()
    assert set(effects.values()) == {1}
    runs_driven = sum(len(runs) for runs, _ in made)
    assert len(effects) == 3 * runs_driven
    counted = Counts(
        cells=1,
        occurrences=OCCURRENCES,
        deaths=came.total(),
        runs=runs_driven,
        effects=len(effects),
        entries=len(entries),
    )
    record_property(MATRIX, counted.told())


def test_the_judge_finds_a_second_effect_a_wrong_word_and_a_missing_entry(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    """What the cells rest on must be able to fail."""
    supervisor.drive(["run"], [])
    entries = supervisor.verify()
    keys = supervisor.world.keys_of("run")
    judge(entries, supervisor.world, Notes(tmp_path / "world"))
    with pytest.raises(AssertionError, match="missing"):
        judge(entries[:-1], supervisor.world, Notes(tmp_path / "world"))
    started = [entry.type for entry in entries].index("step.started")
    with pytest.raises(AssertionError, match="told as not run"):
        judge(entries[:started], supervisor.world, Notes(tmp_path))
    with pytest.raises(AssertionError, match="did not run"):
        judge(entries, World(tmp_path), Notes(tmp_path))
    supervisor.world.act(run="run", action="s1", key=keys["s1"][0])
    with pytest.raises(AssertionError, match="happened 2 times"):
        judge(entries, supervisor.world, Notes(tmp_path / "world"))
