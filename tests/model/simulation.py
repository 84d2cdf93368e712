"""One seed, one history: every choice comes from it, so the same seed does the same again.

Two runtimes and a few reviewers use two replicas through a bad network, while clocks jump, commits
fail, replicas restart and runtimes die. After each move every answer was compared with the model's;
at the end the world, the log and the tables are.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from ledger.core.commands import BreakLease, RequestCancel
from ledger.core.ids import RunId, Tenant
from ledger.core.vocabulary import ActorKind, Role
from tests.model.door import Differs, Door, StillHouse
from tests.model.network import Network
from tests.model.reviewers import Reviewers
from tests.model.runtimes import Runtime, Stage
from tests.model.world import World
from tests.support.in_process import ADMIN, CANCELLER, RUNTIME, LedgerInProcess, caller

DRIVING_PERSON = caller("person-1", ActorKind.HUMAN, Role.DRIVE, Role.RECONCILE)
TOLD_AT_THE_END = 25
NOT_RUN = ("NO_EFFECT", "FAILED", "RECONCILED_NOT_EXECUTED", "WITHDRAWN")


@dataclass
class Simulation:
    """The parts, and what was done with them."""

    house: StillHouse
    seed: int
    steps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.house.clock.reset()
        self.chance = Random(self.seed)
        ledger = LedgerInProcess(
            self.house, Tenant(f"simulation-{self.seed}-{secrets.token_hex(6)}")
        )
        ledger.replica()
        self.door = Door(ledger)
        self.world = World()
        self.network = Network(self.door, self.chance)
        self.stage = Stage(self.door, self.network, self.world, self.chance)
        self.runtimes = [
            Runtime(self.stage, RUNTIME, "one"),
            Runtime(self.stage, DRIVING_PERSON, "two"),
        ]
        self.reviewers = Reviewers(self.stage, DRIVING_PERSON)
        self.moves: list[tuple[int, Callable[[], str]]] = [
            (60, lambda: self.chance.choice(self.runtimes).act()),
            (10, self._network),
            (14, self._world),
            (11, self._time_passes),
            (7, self._sweep),
            (14, self.reviewers.act),
            (2, lambda: self.chance.choice(self.runtimes).die()),
            (2, self._restart),
            (3, self._clock_jumps),
            (5, self._trouble),
            (2, self._somebody_stops_it),
            (5, self._new_run),
        ]

    def run(self, steps: int) -> None:
        """Makes so many moves and judges what is left. Tells the seed and the last moves if
        anything differs."""
        finished = False
        try:
            weights = [weight for weight, _ in self.moves]
            for _ in range(steps):
                self.steps.append("")
                move = self.chance.choices(self.moves, weights)[0][1]
                self.steps[-1] = f"{self.door.clock.elapsed_us / 1e6:.3f} s {move()}"
            self._come_to_rest()
            self._judge()
            finished = True
        finally:
            if not finished:
                print(self.story())
                self._stop()

    def story(self) -> str:
        """How to do it again, and the last moves."""
        last = self.steps[-TOLD_AT_THE_END:]
        lines = "\n".join(f"  {len(self.steps) - len(last) + i}: {s}" for i, s in enumerate(last))
        return (
            f"LEDGER_SIMULATION_SEED={self.seed} does it again; "
            f"{len(self.steps)} steps, the last:\n{lines}"
        )

    # Moves

    def _network(self) -> str:
        return f"{self.network.deliver_late(at=self.chance.randrange(2))} late messages arrive"

    def _world(self) -> str:
        running = self.world.running(self.door.clock.elapsed_us)
        if not running:
            return "no tool is at work"
        call = self.chance.choice(running)
        if self.chance.random() < 0.25:
            call.over = "refused"
            return f"{call.tool} refuses {call.named}"
        effects = self.world.land(call)
        if call.tool == "send" and effects > 1:
            raise Differs(f"{call.tool} had {effects} effects, the last under {call.key}")
        return f"{call.tool} takes effect under {call.named}"

    def _time_passes(self) -> str:
        seconds = self.chance.choice([0.05, 0.5, 2.0, 5.0, 9.0, 21.0, 40.0])
        self.door.clock.advance(seconds)
        return f"{seconds} s pass"

    def _sweep(self) -> str:
        at = self.chance.randrange(2)
        self.door.sweep(at=at)
        return f"{at} sweeps"

    def _restart(self) -> str:
        if self.door.clock.off_us:
            return "no replica starts while the clock is wrong"
        at = self.chance.randrange(2)
        self.door.restart(at)
        return f"{at} restarts"

    def _clock_jumps(self) -> str:
        """Far ahead or back. Both replicas have read the clock before it is wrong, and so has the
        log: a clock behind its replica's memory, but not behind the log, is believed (rules, 2)."""
        if not self.door.model.log:
            return "nothing stands yet"
        for at in (0, 1):
            self.door.sweep(at=at)
        self.door.clock.off_us = self.chance.choice([0, 0, 86_400, -86_400]) * 1_000_000
        return f"the database's clock is off by {self.door.clock.off_us // 1_000_000} s"

    def _trouble(self) -> str:
        trouble = self.house.trouble
        trouble.before, trouble.after = self.chance.choice([(1, 0), (3, 0), (0, 1), (0, 1)])
        return f"the next commits fail: {trouble}"

    def _somebody_stops_it(self) -> str:
        run = RunId(self.chance.choice(self.stage.runs))
        breaks = self.chance.random() < 0.7
        command = BreakLease(run, "stuck") if breaks else RequestCancel(run)
        self.door.deliver([self.stage.request(command, ADMIN if breaks else CANCELLER)])
        return f"somebody stops {run}: {type(command).__name__}"

    def _new_run(self) -> str:
        at = self.chance.randrange(len(self.stage.runs))
        closed = [run for run in self.stage.runs if self.stage.run(run).get("status")]
        old = closed[0] if closed else self.stage.runs[at]
        at = self.stage.runs.index(old)
        if not closed and len(self.stage.run(old).get("steps", ())) < 14:
            return f"{old} goes on"
        self.stage.runs[at] = f"run-{self.stage.made + 10}"
        return f"{self.stage.runs[at]} comes after {old}"

    # The end

    def _come_to_rest(self) -> None:
        self.house.trouble.end()
        self.door.clock.off_us = 0
        while self.network.late:
            self.network.deliver_late(at=0)
        self.door.clock.advance(7_200)
        self.world.running(self.door.clock.elapsed_us)
        for at in (0, 1):
            self.door.sweep(at=at)
        self.reviewers.decide_all()

    def _judge(self) -> None:
        leaves = {entry.index: entry.leaf_hash for entry in self.door.ledger.entries()}
        for index, leaf in self.door.acknowledged:
            if leaves.get(index) != leaf:
                raise Differs(f"entry {index} was acknowledged and does not stand")
        for (tool, name), key in self.door.model.keys.items():
            happened, state = self.world.effects[(tool, name)], key["step"]["state"]
            if happened and state in NOT_RUN:
                raise Differs(f"{tool} {name} ran and is said to be {state}")
            if not happened and state not in NOT_RUN:
                raise Differs(f"{tool} {name} never ran and is said to be {state}")
        self.door.ledger.close()

    def _stop(self) -> None:
        self.house.trouble.end()
        for replica in self.door.ledger.replicas:
            replica.sequencer.drain(5)
