"""Generated histories of up to six deaths, of anybody anywhere, in one run of three steps.

The examples are the same in every run, unless LEDGER_DEATHS_SEED gives another seed; a failing one
is printed with what it was made of.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.crash.counting import SEQUENCES, Counts
from tests.crash.deaths import Death, Role, Victim, Window
from tests.crash.supervisor import Supervisor

SEED_VARIABLE: Final = "LEDGER_DEATHS_SEED"
DEATHS_MAX: Final = 6
STEP_WINDOWS: Final = frozenset(
    {
        Window.AFTER_PLAN,
        Window.BEFORE_START,
        Window.START_COMMITTED,
        Window.BEFORE_EFFECT,
        Window.AFTER_EFFECT,
        Window.BEFORE_COMPLETE,
        Window.COMPLETE_COMMITTED,
    }
)
"""These are passed at each step, so that a process may die at the second or third occasion."""


@st.composite
def deaths(draw: st.DrawFn) -> Death:
    """A death that may come in a run of three steps."""
    window = draw(st.sampled_from(list(Window)))
    sweeps = window.role is Role.SWEEP
    victim = draw(st.sampled_from([v for v in Victim if not (sweeps and v is Victim.BOTH)]))
    nth = draw(st.integers(1, 3)) if window in STEP_WINDOWS else 1
    return Death(window, victim, nth=nth)


CLASSES: Final = st.tuples(
    *[st.sampled_from(["NON_IDEMPOTENT_WRITE", "NON_IDEMPOTENT_WRITE", "IDEMPOTENT_WRITE"])] * 3
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("examples", [2, pytest.param(20, marks=pytest.mark.long)])
def test_no_sequence_of_deaths_does_a_write_twice_or_loses_one(
    supervisor: Supervisor, examples: int, record_property: Callable[[str, object], None]
) -> None:
    given_seed = os.environ.get(SEED_VARIABLE, "")
    runs: list[str] = []

    @settings(
        max_examples=examples,
        derandomize=not given_seed,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(deaths(), min_size=2, max_size=DEATHS_MAX), CLASSES)
    def live_through(sequence: list[Death], classes: tuple[str, ...]) -> None:
        runs.append(f"run-{len(runs)}")
        supervisor.drive([runs[-1]], sequence, classes)
        supervisor.verify()

    print(f"{SEED_VARIABLE}={given_seed or '(unset: the same examples each time)'}")
    (seed(int(given_seed))(live_through) if given_seed else live_through)()
    assert len(runs) >= examples // 2
    assert len(supervisor.happened) >= len(runs), "hardly any death came"
    counted = Counts(
        cells=1,
        occurrences=len(supervisor.happened),
        deaths=len(supervisor.happened),
        runs=len(runs),
        effects=len(supervisor.world.by_key()),
        entries=len(supervisor.verify()),
    )
    record_property(SEQUENCES, counted.told())
