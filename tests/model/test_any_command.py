"""Whatever is sent: generated histories, and seeded ones full of contradictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    run_state_machine_as_test,
)

from ledger.core.vocabulary import Outcome, Verdict
from tests.model.any_command import AnyCommand
from tests.model.door import Differs, StillHouse


def _run(house: StillHouse, *, examples: int, steps: int) -> tuple[int, str]:
    """Runs the machine; how many histories were judged, and how often each answer was given."""
    judged: list[dict[str, int]] = []
    machine = type("AnyCommandHere", (AnyCommand,), {"house": house, "judged": judged})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
    words: Counter[str] = Counter()
    for each in judged:
        words.update(each)
    return len(judged), (
        f"{len(judged)} histories, {words.total():,} answers equal the model's: "
        f"{', '.join(f'{count} {word}' for word, count in words.most_common())}"
    )


def test_whatever_is_sent_the_answer_is_the_models(
    still_house: StillHouse, record_property: Callable[[str, object], None]
) -> None:
    judged, told = _run(still_house, examples=15, steps=50)
    record_property("histories", told)
    assert judged >= 15


@pytest.mark.long
@pytest.mark.timeout(900)
def test_whatever_is_sent_in_long_histories_the_answer_is_the_models(
    still_house: StillHouse, record_property: Callable[[str, object], None]
) -> None:
    judged, told = _run(still_house, examples=40, steps=80)
    record_property("histories", told)
    assert judged >= 40


def _contradict(house: StillHouse, seed: int, steps: int) -> dict[str, int]:
    """Works, reports and decides at random, most of it lawful, much of it contradicting."""
    chance = Random(seed)
    machine = type("Contradicting", (AnyCommand,), {"house": house, "judged": []})()
    machine.begin()
    one_of = chance.choice
    moves: list[tuple[int, Callable[[], None]]] = [
        (
            30,
            lambda: machine.work(
                run=one_of(["run-1", "run-2"]),
                step=f"s{chance.randrange(1 + len(machine.door.model.log) // 6)}",
                at=chance.randrange(2),
                tool=one_of(["send", "send", "put", "look-up"]),
                key=one_of(["", "k1", "k2", "k3", "k4"]),
                over=one_of(["k1", "k2", "k3"]),
                supersede=chance.random() < 0.4,
                arguments=one_of([b"1", b"1", b"1", b"2", b"3"]),
                seconds=one_of([1, 60]),
            ),
        ),
        (
            25,
            lambda: machine.report(
                chance.randrange(100),
                one_of(list(Outcome)),
                chance.randrange(2),
                chance.random() < 0.2,
            ),
        ),
        (
            20,
            lambda: machine.settle(
                chance.randrange(100),
                one_of(list(Verdict)),
                chance.random() < 0.5,
                chance.randrange(2),
            ),
        ),
        (4, lambda: machine.wait(one_of([0.5, 4.0, 11.0, 31.0]))),
        (4, lambda: machine.sweep(chance.randrange(2))),
        (5, lambda: machine.again(chance.randrange(5), chance.randrange(2), False)),
        (2, lambda: machine.stop(one_of(["run-1", "run-2"]), "break", 0)),
        (2, lambda: machine.trouble(chance.random() < 0.5)),
    ]
    weights = [weight for weight, _ in moves]
    for step in range(steps):
        try:
            chance.choices(moves, weights)[0][1]()
        except Differs as difference:
            raise Differs(f"seed {seed}, step {step}: {difference}") from difference
    machine.teardown()
    words: dict[str, int] = machine.door.words
    return words


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", [3, pytest.param(12, marks=pytest.mark.long)])
def test_reports_and_decisions_that_contradict_are_answered_as_the_model_does(
    still_house: StillHouse, seeds: int, record_property: Callable[[str, object], None]
) -> None:
    words: Counter[str] = Counter()
    for seed in range(seeds):
        words.update(_contradict(still_house, seed, 150))
    told = ", ".join(f"{count} {word}" for word, count in words.most_common())
    record_property("histories", f"{seeds} seeds, {words.total():,} answers: {told}")
    assert {"UNKNOWN", "KEY_ABANDONED", "LATE", "CONTRADICTION"} & words.keys()
