"""What the demo's agents do: a file of runs, one a line, or a generated default.

{"run": "order-07", "steps": [{"tool": "refund", "effect": "NON_IDEMPOTENT_WRITE",
  "arguments": {"order": 7}}]}
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NewType

from ledger.client import EffectClass
from ledger.client.values import Json
from ledger.core.arguments import encode_arguments
from ledger.core.errors import Malformed
from ledger.core.ids import client_id

ActionId = NewType("ActionId", str)
"""Names one intended action: the same for every try of it, whatever its step or key."""

TOOL_VERSION: Final = "1"
DEFAULT_RUNS: Final = 12


@dataclass(frozen=True, slots=True)
class AgentAction:
    """One tool call. `arguments` are its exact bytes."""

    tool: str
    effect: EffectClass
    arguments: bytes


@dataclass(frozen=True, slots=True)
class AgentRun:
    """What one agent is going to do, in order."""

    run: str
    actions: tuple[AgentAction, ...]


class ActionsUnreadable(ValueError):
    """The file of actions is not of the expected form; the message names line and fault."""


def action_id(run: str, tool: str, arguments: bytes) -> ActionId:
    """The identity of an action: its run, its tool and its argument bytes."""
    digest = hashlib.sha256(b"\0".join((run.encode(), tool.encode(), arguments)))
    return ActionId(digest.hexdigest()[:32])


def wanted(runs: Iterable[AgentRun]) -> Counter[ActionId]:
    """How often each effect is meant to happen. Reads and proposals have none."""
    return Counter(
        action_id(agent.run, action.tool, action.arguments)
        for agent in runs
        for action in agent.actions
        if not action.effect.harmless
    )


def read_actions(path: Path) -> list[AgentRun]:
    """The runs of a file. Raises `ActionsUnreadable`, and OSError where there is no file."""
    runs: list[AgentRun] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            try:
                runs.append(_read_run(json.loads(line)))
            except (ValueError, Malformed) as fault:
                raise ActionsUnreadable(f"{path}, line {number}: {fault}") from None
    repeated = [run for run, times in Counter(agent.run for agent in runs).items() if times > 1]
    if repeated:
        raise ActionsUnreadable(f"{path}: run {repeated[0]} stands in it more than once")
    if not any(agent.actions for agent in runs):
        raise ActionsUnreadable(f"{path}: holds no action")
    return runs


def write_actions(path: Path, runs: Sequence[AgentRun]) -> None:
    """Write runs so that `read_actions` gives them back."""
    lines = []
    for agent in runs:
        steps = [
            {
                "tool": action.tool,
                "effect": action.effect.name,
                "arguments": json.loads(action.arguments),
            }
            for action in agent.actions
        ]
        lines.append(json.dumps({"run": agent.run, "steps": steps}, ensure_ascii=False))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def under_prefix(runs: Iterable[AgentRun], prefix: str) -> list[AgentRun]:
    """The same runs under ids of their own: on a server that is kept, run ids are for ever."""
    return [AgentRun(f"{prefix}{agent.run}", agent.actions) for agent in runs]


def default_actions(seed: int) -> list[AgentRun]:
    """Twelve orders of a small shop, 30 writes in all; the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    sizes = [2, 3] * (DEFAULT_RUNS // 2)
    chance.shuffle(sizes)
    return [_order(chance, number, size) for number, size in enumerate(sizes, start=1)]


def _order(chance: random.Random, number: int, size: int) -> AgentRun:
    order = f"A{chance.randrange(1000, 10_000)}"
    item = chance.choice(("kettle", "lamp", "notebook", "umbrella", "teapot", "blanket"))
    possible = (
        _write("place_order", order=order, item=item, pieces=chance.randint(1, 4)),
        _write("send_invoice", order=order, amount_cents=chance.randint(500, 90_000)),
        _write("refund", order=order, amount_cents=chance.randint(100, 9_000)),
        _write("book_courier", order=order, hour=chance.randint(8, 18)),
    )
    return AgentRun(f"order-{number:02d}", tuple(chance.sample(possible, size)))


def _write(tool: str, **arguments: Json) -> AgentAction:
    return AgentAction(tool, EffectClass.NON_IDEMPOTENT_WRITE, encode_arguments(arguments))


def _read_run(line: object) -> AgentRun:
    match line:
        case {"run": str(run), "steps": list(steps)}:
            named = client_id(str, run, path="run")
            return AgentRun(named, tuple(_read_action(step) for step in steps))
        case _:
            raise ValueError('is not {"run": ..., "steps": [...]}')


def _read_action(step: object) -> AgentAction:
    match step:
        case {"tool": str(tool), "effect": str(effect), "arguments": dict(arguments)}:
            if effect not in EffectClass.__members__ or effect == "UNSPECIFIED":
                raise ValueError(f"{effect!r} is no effect class")
            named = client_id(str, tool, path="tool")
            return AgentAction(named, EffectClass[effect], encode_arguments(arguments))
        case _:
            raise ValueError('a step is not {"tool": ..., "effect": ..., "arguments": {...}}')
