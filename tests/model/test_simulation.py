"""Seeded histories: every answer equals the model's, and the world saw each write at most once.

`LEDGER_SIMULATION_SEED=n` runs that seed alone. Everyday runs try a few seeds, CI many.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from tests.model.door import Differs, StillHouse
from tests.model.simulation import Simulation

SEED_VARIABLE = "LEDGER_SIMULATION_SEED"
STEPS, STEPS_MAX = 300, 500


def _seeds(count: int) -> range:
    asked = os.environ.get(SEED_VARIABLE)
    return range(int(asked), int(asked) + 1) if asked else range(count)


def run_seeds(house: StillHouse, seeds: range, steps: int) -> str:
    """Runs them; tells which, how many steps, and what was seen."""
    words: Counter[str] = Counter()
    fates: Counter[str] = Counter()
    effects = entries = 0
    for seed in seeds:
        simulation = Simulation(house, seed)
        simulation.run(steps)
        words.update(simulation.door.words)
        fates.update(simulation.network.fates)
        effects += simulation.world.effects.total()
        entries += len(simulation.door.model.log)
    return (
        f"seeds {seeds[0]} to {seeds[-1]}, {steps * len(seeds):,} steps, "
        f"{words.total():,} answers of {len(words)} kinds equal the model's, {entries:,} entries "
        f"verified, {effects:,} effects, messages: {dict(sorted(fates.items()))}"
    )


def test_every_answer_of_a_few_seeds_equals_the_models(
    still_house: StillHouse, record_property: Callable[[str, object], None]
) -> None:
    steps = STEPS_MAX if SEED_VARIABLE in os.environ else STEPS
    told = run_seeds(still_house, _seeds(4), steps)
    record_property("histories", told)
    assert "answers" in told


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_answer_of_many_seeds_equals_the_models(
    still_house: StillHouse, record_property: Callable[[str, object], None]
) -> None:
    told = run_seeds(still_house, _seeds(20), STEPS_MAX)
    record_property("histories", told)
    assert "answers" in told


def test_the_same_seed_makes_the_same_history(still_house: StillHouse) -> None:
    told = []
    for _ in range(2):
        simulation = Simulation(still_house, seed=7)
        simulation.run(120)
        told.append((simulation.steps, simulation.door.words, simulation.door.model.log))
    assert told[0] == told[1]


def test_a_difference_tells_the_seed_and_the_last_steps(
    still_house: StillHouse, capsys: pytest.CaptureFixture[str]
) -> None:
    simulation = Simulation(still_house, seed=11)
    simulation.door.model.log.append(("run-1", "an.entry_that_never_was"))
    with pytest.raises(Differs):
        simulation.run(120)
    printed = capsys.readouterr().out
    assert "LEDGER_SIMULATION_SEED=11 does it again" in printed
    assert f"{len(simulation.steps) - 1}: " in printed
