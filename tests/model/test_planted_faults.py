"""The judges are judged: builds with one planted fault each are caught, and this says by what."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.model.door import StillHouse
from tests.model.faults import FAULTS, planted
from tests.model.simulation import Simulation

SEEDS = range(100)
STEPS = 400

# Fault: what catches it, as the difference says. The first that does is told.
CAUGHT_BY = {
    "acknowledged before commit": r"entries stand, the newest \[\]; the model has \[\(",
    "stale token accepted": r"'word': '(ok|EXECUTE)'.*\n  model: \{'word': 'STALE_LEASE'",
    "claim not atomic": r"'EXECUTE'.*\n  model: \{'word': '(HELD|UNKNOWN|REPLAY|KEY_ABANDONED)",
    "duplicate request appended": (
        r"'own': \((\d+), \d+\)\}\n  model: \{.*'own': \((?!\1,)\d+, \d+\)\}$"
    ),
    "not_executed before the deadline": r"'word': 'ok'.*\n  model: \{'word': 'TOO_EARLY'",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_build_with_a_planted_fault_is_caught(
    still_house: StillHouse, fault: str, record_property: Callable[[str, object], None]
) -> None:
    with planted(fault):
        told, difference = _caught(still_house, CAUGHT_BY[fault])
    record_property("histories", told)
    assert re.search(CAUGHT_BY[fault], difference, re.DOTALL), told


def _caught(house: StillHouse, by: str) -> tuple[str, str]:
    """The first history that differs in just that way, and how many differed before it."""
    differed = 0
    for seed in SEEDS:
        simulation = Simulation(house, seed)
        try:
            simulation.run(STEPS)
        except AssertionError as difference:
            differed += 1
            if re.search(by, str(difference), re.DOTALL):
                at = f"seed {seed} at step {len(simulation.steps)}, {differed - 1} differed before"
                return f"caught by {at}: {difference}", str(difference)
    return f"{differed} of {len(SEEDS)} seeds differed, none by {by}", ""


def _codes() -> list[object]:
    functions = [change.function for changes in FAULTS.values() for change in changes]
    return [getattr(function, "__code__", None) for function in functions]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_gone_after_its_block(fault: str) -> None:
    before = _codes()
    with planted(fault):
        assert _codes() != before
    assert _codes() == before
