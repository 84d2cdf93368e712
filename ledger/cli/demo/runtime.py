"""The demo's agent runtime: a process of its own that is killed again and again.

    python -m ledger.cli.demo.runtime --server HOST:PORT --token-file FILE \\
        --actions FILE --shop FILE

It works through a file of runs in order, skips what is closed, and leaves what another (dead)
process still holds for later. It keeps nothing of its own: all it knows after a restart it reads
from the ledger. It ends with 0 once every run is closed, and with `WAITING` if some wait for a
decision. Each thing it does is one JSON line on standard output.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ledger.cli.demo.actions import TOOL_VERSION, AgentRun, read_actions
from ledger.cli.demo.shop import Order, Shop
from ledger.cli.demo.windows import Death, Fate, Window
from ledger.client import (
    DeadlinePassed,
    Effect,
    HeldByAnother,
    Ledger,
    LedgerError,
    OutcomeUnknown,
    Payload,
    Reason,
    Refused,
    ResumeState,
    ResumeStep,
    Run,
    Step,
    StepState,
)

WAITING: Final = 75
"""Exit code: every run that is left waits for a decision or for a lease to run out."""
LEASE_S: Final = 5.0
"""The shortest lease there is, so that what a dead process held is free again soon."""
OPERATION_S: Final = 2.0
"""How long one call to the shop may take; from then on its absence there proves something."""
_AGAIN: Final = ".again"
_PASSES_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class Orders:
    """What the process was told."""

    server: str
    token_file: Path
    actions: Path
    shop: Path
    holder: str
    latency_s: float
    death: Death | None


class Runtime:
    """Drives every run of a file as far as it goes."""

    def __init__(self, client: Ledger, shop: Shop, orders: Orders) -> None:
        self._client = client
        self._shop = shop
        self._orders = orders
        self._fate = Fate(orders.death, self._last_words)
        self._at = ("", "")

    def work(self, agents: Sequence[AgentRun]) -> int:
        """Work through the runs; answers the exit code."""
        existing = {info.run: bool(info.status) for info in self._client.runs()}
        left = [agent for agent in agents if not existing.get(agent.run)]
        known = set(existing)
        tell("ready", left=len(left))
        for past in range(_PASSES_MAX):
            left = self._pass(left, known=known, wait_s=2 * LEASE_S if past else 0.0)
            if not left:
                break
            known |= {agent.run for agent in left}
        closed = {info.run for info in self._client.runs() if info.status}
        return 0 if all(agent.run in closed for agent in agents) else WAITING

    def _pass(
        self, agents: Sequence[AgentRun], *, known: set[str], wait_s: float
    ) -> list[AgentRun]:
        """Drive each once; answers those that somebody holds, or that a lease was lost for."""
        held: list[AgentRun] = []
        for agent in agents:
            try:
                if agent.run in known:
                    driven = self._client.resume(
                        agent.run, holder=self._orders.holder, ttl_s=LEASE_S, wait_s=wait_s
                    )
                else:
                    driven = self._client.run(agent.run, holder=self._orders.holder, ttl_s=LEASE_S)
                with driven as run:
                    self._drive(run, agent)
            except OutcomeUnknown:
                continue
            except (HeldByAnother, DeadlinePassed):
                held.append(agent)
            except Refused as refused:
                if refused.reason not in (Reason.LEASE_EXPIRED, Reason.STALE_LEASE):
                    raise
                held.append(agent)
        return held

    def _drive(self, run: Run, agent: AgentRun) -> None:
        state = run.resumed
        if state is None or not state.steps:
            run.plan(plan_of(agent))
        else:
            self._go_on(run, state)
        for step in run.ready_steps():
            self._perform(run, step)
        state = run.resumed
        if state is not None and state.unknown:
            tell("stopped", run=run.run)
            run.stop("outcome_unknown")
            return
        run.close()
        tell("closed", run=run.run)

    def _go_on(self, run: Run, state: ResumeState) -> None:
        """What a resumed run needs before its ready steps: forgotten tries, and new keys."""
        tell("resumed", run=run.run)
        planned = {step.step: step for step in state.steps}
        unknown = {step.step for step in state.unknown}
        for step in state.steps:
            asked = step.step.endswith(_AGAIN) and step.info.state is StepState.PLANNED
            if asked and step.step.removesuffix(_AGAIN) not in unknown:
                run.withdraw(step.step, reason="asked_before")
        for step in state.unknown:
            again = planned.get(step.step + _AGAIN)
            if again is None or again.info.state is StepState.PLANNED:
                self._ask_again(run, step)
        instead = abandoned(state)
        if instead:
            run.plan([superseding(step, state) for step in instead])
            for step in instead:
                tell("superseded", run=run.run, step=step.step)

    def _ask_again(self, run: Run, step: ResumeStep) -> None:
        """An agent that has forgotten its earlier try asks for the same action under a new name.

        If it were told EXECUTE it would do it, and the shop would count the effect twice.
        """
        again = step.step + _AGAIN
        info = step.info
        run.plan([Step(again, info.tool, info.tool_version, _same(step), info.effect_class)])
        try:
            with run.effect(again, timeout_s=OPERATION_S) as effect:
                if effect.execute:
                    tell("doubled", run=run.run, step=again)
                    self._call(effect, run.run, step)
        except (OutcomeUnknown, HeldByAnother) as told:
            answer = "UNKNOWN" if isinstance(told, OutcomeUnknown) else "HELD"
            tell("asked_again", run=run.run, step=step.step, again=again, answer=answer)
            run.withdraw(again, reason="asked_before")

    def _perform(self, run: Run, step: ResumeStep) -> None:
        self._at = (run.run, step.step)
        self._fate.reach(Window.BEFORE_START)
        with run.effect(step.step, timeout_s=OPERATION_S) as effect:
            if effect.execute:
                self._call(effect, run.run, step)
        tell("done", run=run.run, step=step.step)

    def _call(self, effect: Effect, run: str, step: ResumeStep) -> None:
        order = Order(
            run=run,
            tool=step.info.tool,
            effect=step.info.effect_class,
            arguments=step.arguments.content,
            key=effect.key,
            token=effect.token,
        )
        receipt = self._shop.perform(order, before=self._before_effect, after=self._after_effect)
        self._fate.reach(Window.BEFORE_COMPLETED)
        effect.succeeded({"receipt": receipt}, external_reference=receipt)

    def _last_words(self, window: Window) -> None:
        run, step = self._at
        tell("dying", run=run, step=step, window=window.value)

    def _before_effect(self) -> None:
        time.sleep(self._orders.latency_s)
        self._fate.reach(Window.BEFORE_EFFECT)

    def _after_effect(self) -> None:
        self._fate.reach(Window.AFTER_EFFECT)


def plan_of(agent: AgentRun) -> list[Step]:
    """The plan an agent makes: one step after the other."""
    steps: list[Step] = []
    for number, action in enumerate(agent.actions, start=1):
        steps.append(
            Step(
                f"s{number:02d}",
                tool=action.tool,
                version=TOOL_VERSION,
                arguments=Payload(action.arguments, "application/json"),
                effect_class=action.effect,
                after=(steps[-1].step,) if steps else (),
            )
        )
    return steps


def abandoned(state: ResumeState) -> list[ResumeStep]:
    """Steps decided not_executed that no other step has taken the place of yet."""
    taken = {
        step.info.supersedes
        for step in state.steps
        if step.info.supersedes and step.info.state is not StepState.WITHDRAWN
    }
    return [
        step
        for step in state.steps
        if step.info.state is StepState.RECONCILED_NOT_EXECUTED and step.info.key not in taken
    ]


def superseding(step: ResumeStep, state: ResumeState) -> Step:
    """The same action as a new step, whose key takes the place of the abandoned one."""
    root = step.step.partition(".")[0]
    known = {other.step for other in state.steps}
    number = next(n for n in range(2, len(known) + 3) if f"{root}.{n}" not in known)
    info = step.info
    return Step(
        f"{root}.{number}",
        info.tool,
        info.tool_version,
        _same(step),
        info.effect_class,
        supersedes=info.key,
    )


def tell(event: str, **facts: str | int) -> None:
    """One line to whoever started this process."""
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the process; answers its exit code."""
    orders = _orders(arguments)
    agents = read_actions(orders.actions)
    shop = Shop(orders.shop)
    with Ledger.connect(orders.server, token_file=orders.token_file) as client:
        try:
            return Runtime(client, shop, orders).work(agents)
        except LedgerError as error:
            tell("failed", why=f"{type(error).__name__}: {error}")
            return 1


def _same(step: ResumeStep) -> Payload:
    return Payload(step.arguments.content, step.arguments.media_type)


def _orders(arguments: Sequence[str] | None) -> Orders:
    parser = argparse.ArgumentParser(prog="python -m ledger.cli.demo.runtime")
    parser.add_argument("--server", required=True)
    for name in ("--token-file", "--actions", "--shop"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--holder", default="shop-agent")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--die-at", type=Death.parse, default=None, metavar="WINDOW:N")
    given = parser.parse_args(arguments)
    return Orders(
        server=given.server,
        token_file=given.token_file,
        actions=given.actions,
        shop=given.shop,
        holder=given.holder,
        latency_s=given.latency_ms / 1000,
        death=given.die_at,
    )


if __name__ == "__main__":
    sys.exit(main())
