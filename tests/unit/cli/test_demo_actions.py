"""The demo's file of actions, its default, and the identity of an action."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ledger.cli.demo.actions import (
    ActionsUnreadable,
    AgentRun,
    action_id,
    default_actions,
    read_actions,
    under_prefix,
    wanted,
    write_actions,
)
from ledger.client import EffectClass


def _file(folder: Path, *lines: object) -> Path:
    path = folder / "actions.jsonl"
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    return path


STEP = {"tool": "refund", "effect": "NON_IDEMPOTENT_WRITE", "arguments": {"b": 2, "a": 1}}


def test_the_default_is_thirty_writes_in_twelve_runs_and_the_same_for_the_same_seed() -> None:
    agents = default_actions(5)
    assert agents == default_actions(5)
    assert agents != default_actions(6)
    assert len(agents) == 12
    assert sum(len(agent.actions) for agent in agents) == 30
    assert wanted(agents).total() == 30


def test_no_two_actions_of_one_default_run_are_equal() -> None:
    for seed in range(50):
        assert set(wanted(default_actions(seed)).values()) == {1}


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    agents = default_actions(1)
    write_actions(tmp_path / "a.jsonl", agents)
    assert read_actions(tmp_path / "a.jsonl") == agents


def test_arguments_are_canonical_so_that_their_order_makes_no_difference(tmp_path: Path) -> None:
    (agent,) = read_actions(_file(tmp_path, {"run": "r", "steps": [STEP]}))
    assert agent.actions[0].arguments == b'{"a":1,"b":2}'


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["{"], "line 1"),
        ([{"run": "r", "steps": [STEP]}, {"run": "s"}], "line 2"),
        ([{"run": "_r", "steps": [STEP]}], "line 1"),
        ([{"run": "r", "steps": [{**STEP, "effect": "WRITE"}]}], "'WRITE' is no effect class"),
        ([{"run": "r", "steps": [{**STEP, "effect": "UNSPECIFIED"}]}], "no effect class"),
        ([{"run": "r", "steps": [{**STEP, "arguments": {"n": 2**60}}]}], "line 1"),
        ([{"run": "r", "steps": [STEP]}, {"run": "r", "steps": []}], "more than once"),
        ([{"run": "r", "steps": []}], "holds no action"),
        ([], "holds no action"),
    ],
)
def test_a_file_of_another_form_is_refused_by_its_line(
    lines: list[object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ActionsUnreadable, match=said):
        read_actions(_file(tmp_path, *lines))


def test_an_action_is_named_by_run_tool_and_arguments() -> None:
    names = {
        action_id("r", "t", b"{}"),
        action_id("s", "t", b"{}"),
        action_id("r", "u", b"{}"),
        action_id("r", "t", b"[]"),
    }
    assert len(names) == 4
    assert action_id("r", "t", b"{}") in names


def test_reads_and_proposals_have_no_effect_to_count() -> None:
    agents = default_actions(1)
    harmless = AgentRun(
        "r",
        tuple(
            type(action)(action.tool, EffectClass.READ_ONLY, b"{}") for action in agents[0].actions
        ),
    )
    assert wanted([harmless]) == Counter()


def test_a_prefix_makes_run_ids_of_ones_own() -> None:
    agents = under_prefix(default_actions(1), "demo-1/")
    assert all(agent.run.startswith("demo-1/order-") for agent in agents)
