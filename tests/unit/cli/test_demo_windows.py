"""Where and when the demo's runtime dies."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ledger.cli.demo.windows import KILLS_MIN, Death, Fate, Window, deaths


@pytest.mark.parametrize("actions", [1, 5, 30, 793])
@pytest.mark.parametrize("seed", [0, 1, 7])
def test_every_window_is_died_in_and_at_least_five_times_in_all(seed: int, actions: int) -> None:
    planned = deaths(seed, actions=actions)
    assert planned == deaths(seed, actions=actions)
    assert {death.window for death in planned} == set(Window)
    assert len(planned) >= KILLS_MIN >= 5
    assert all(death.nth >= 1 for death in planned)


@pytest.mark.parametrize("actions", [30, 793])
def test_all_deaths_come_while_there_is_work(actions: int) -> None:
    for seed in range(100):
        assert sum(death.nth for death in deaths(seed, actions=actions)) <= actions


def test_another_seed_is_another_plan() -> None:
    assert deaths(1, actions=30) != deaths(2, actions=30)


@pytest.mark.parametrize("window", list(Window))
def test_a_death_is_told_on_a_command_line(window: Window) -> None:
    death = Death(window, 3)
    assert Death.parse(str(death)) == death


@pytest.mark.parametrize("text", ["", "before_start", "before_start:x", "at_noon:1"])
def test_a_death_that_is_not_one_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Death.parse(text)


def test_without_a_death_every_window_is_passed() -> None:
    said: list[Window] = []
    fate = Fate(None, said.append)
    for window in Window:
        fate.reach(window)
    assert said == []


DYING = """
import sys
from ledger.cli.demo.windows import Death, Fate, Window
fate = Fate(Death(Window.BEFORE_EFFECT, 2), lambda window: print("last", window.value, flush=True))
for number in range(1, 4):
    fate.reach(Window.BEFORE_START)
    fate.reach(Window.BEFORE_EFFECT)
    print("passed", number, flush=True)
"""


def test_a_process_dies_by_sigkill_at_the_nth_passage_of_its_window() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", DYING], capture_output=True, text=True, check=False
    )
    assert ended.returncode == -9
    assert ended.stdout.splitlines() == ["passed 1", "last before_effect"]
