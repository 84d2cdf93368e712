"""Directs the demo: starts and kills the runtime, has unknowns settled, counts, verifies."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.cli.demo.account import Account, Effects, appends_per_second
from ledger.cli.demo.actions import AgentRun, wanted
from ledger.cli.demo.auditor import Auditor
from ledger.cli.demo.children import Event, Launch, RuntimeChild
from ledger.cli.demo.confirming import Confirmer, Settled
from ledger.cli.demo.runtime import WAITING
from ledger.cli.demo.shop import Shop
from ledger.cli.demo.stage import Stage
from ledger.cli.demo.windows import Death, Window, deaths
from ledger.cli.stops import Code, Stop
from ledger.client import Ledger, UnknownStep, Verdict

ROUNDS_IDLE_MAX = 3
"""Rounds in which nothing was done, killed or settled, before the demo gives up."""


@dataclass(frozen=True, slots=True)
class Cast:
    """Who takes part: clients by role, and the shop."""

    confirmer: Ledger
    reader: Ledger
    shop: Shop


class Director:
    """One demo, from the first start of the runtime to the account."""

    def __init__(
        self,
        *,
        agents: Sequence[AgentRun],
        seed: int,
        launch: Launch,
        cast: Cast,
        auditor: Auditor,
        stage: Stage,
    ) -> None:
        self._agents = agents
        self._launch = launch
        self._cast = cast
        self._auditor = auditor
        self._stage = stage
        self._confirmer = Confirmer(cast.confirmer, launch.shop, {agent.run for agent in agents})
        self._done: set[tuple[str, str]] = set()
        self.account = Account(actions=sum(len(agent.actions) for agent in agents))
        self._deaths = deque(deaths(seed, actions=self.account.actions))

    def direct(self) -> Account:
        """Go on until every run is closed, then count and verify. Raises `Stop` if stuck."""
        self._hold(
            "an auditor pins the log's key and takes checkpoints, outside the server's folder"
        )
        idle = 0
        while True:
            before = (len(self._done), self.account.kills.total(), len(self.account.settled))
            death = self._deaths.popleft() if self._deaths else None
            status = self._perform(death)
            if status == 0:
                break
            if status == WAITING:
                self._settle()
            after = (len(self._done), self.account.kills.total(), len(self.account.settled))
            idle = idle + 1 if after == before else 0
            if idle > ROUNDS_IDLE_MAX:
                raise Stop(
                    "the demo does not get any further: runs stay open and nothing is unknown.",
                    safe="What was recorded is whole; nothing was done twice by going on.",
                    next=f"Look into {self._launch.log} and `ledger runs`.",
                )
        self._conclude()
        return self.account

    def _perform(self, death: Death | None) -> int | None:
        """One life of the runtime; answers its exit status, None where it was killed."""
        self.account.starts += 1
        last: Event = {}
        with RuntimeChild(self._launch, death) as child:
            for event in child.events():
                self._hear(event)
                last = event
            if child.killed:
                self._died(child, death, last)
                return None
            status = child.status
        if death is not None:
            self._deaths.appendleft(death.soon())
        if status not in (0, WAITING):
            raise Stop(
                f"the runtime ended with status {status}: {last.get('why', 'it gave no reason')}",
                safe="Nothing runs without an acknowledged EXECUTE; the record is as it was.",
                next=f"See {self._launch.log}.",
            )
        return status

    def _died(self, child: RuntimeChild, death: Death | None, last: Event) -> None:
        window = death.window if death is not None else Window.FROM_OUTSIDE
        self.account.kills[window] += 1
        where = window.words
        if last.get("event") == "dying":
            where += f" ({last['run']} {last['step']})"
        self._stage.tell(
            "killed",
            f"runtime {self.account.starts} by SIGKILL {where}",
            window=window.value,
            pid=child.pid,
        )
        self._hold("")

    def _hear(self, event: Event) -> None:
        run, step = str(event.get("run", "")), str(event.get("step", ""))
        match event["event"]:
            case "done":
                self._finish(run, step)
            case "ready" if self.account.starts > 1:
                self._stage.tell(
                    "restarted",
                    f"runtime {self.account.starts}: {event['left']} runs left to do",
                    left=event["left"],
                )
            case "asked_again":
                answer = str(event["answer"])
                self.account.asked_again[answer] += 1
                self._stage.tell(
                    "asked",
                    f"{run}: asked for {step}'s action again as {event['again']}; the ledger said "
                    f"{answer}, the tool was not run",
                    run=run,
                    step=step,
                    answer=answer,
                )
            case "superseded":
                self._stage.tell(
                    "again",
                    f"{run}: {step} did not happen, so it is done under a new key",
                    run=run,
                    step=step,
                )
            case _:
                pass

    def _finish(self, run: str, step: str) -> None:
        self._done.add((run, step.partition(".")[0]))
        self._stage.done(len(self._done))

    def _settle(self) -> None:
        unknowns = self._confirmer.unknowns()
        for unknown in unknowns:
            self._stage.tell(
                "unknown",
                f"{unknown.run} {unknown.step}: {unknown.tool} was started and nobody can say what "
                f"came of it ({unknown.cause})",
                run=unknown.run,
                step=unknown.step,
                cause=unknown.cause,
            )
        for unknown in unknowns:
            self._settle_one(unknown)

    def _settle_one(self, unknown: UnknownStep) -> None:
        def waits(left_s: float) -> None:
            self._stage.tell(
                "waits", f"{left_s:.1f} s: until then the call might still reach the shop"
            )

        settled = self._confirmer.settle(unknown, waits=waits)
        self.account.settled.append(settled)
        if settled.verdict is Verdict.EXECUTED:
            words = f"executed: the shop has receipt {settled.receipt}"
            self._finish(settled.run, settled.step)
        else:
            words = "not executed: past its deadline the shop has nothing under this key"
        self._stage.tell(
            "settled",
            f"{settled.run} {settled.step}: {words}",
            run=settled.run,
            step=settled.step,
            verdict=settled.verdict.name.lower(),
            index=settled.index,
        )

    def _hold(self, words: str) -> None:
        size = self._auditor.hold(self._cast.reader)
        if size is not None:
            self._stage.tell("holds", words, size=size)

    def _conclude(self) -> None:
        self._hold("")
        self._stage.lower()
        account, shop = self.account, self._cast.shop
        account.effects = Effects.of(wanted=wanted(self._agents), happened=shop.happened())
        account.lost = [each for each in account.settled if self._is_lost(each)]
        closed = {info.run for info in self._cast.reader.runs() if info.status}
        account.open_runs = sum(1 for agent in self._agents if agent.run not in closed)
        conclusion = self._auditor.conclude(self._cast.reader)
        account.proof = conclusion.proof
        account.appends_per_second = appends_per_second(conclusion.times_us)
        self._stage.tell("verified", conclusion.proof.said, verdict=conclusion.proof.verdict)

    def _is_lost(self, settled: Settled) -> bool:
        """Settled as executed, and the shop knows nothing of it."""
        if settled.verdict is not Verdict.EXECUTED:
            return False
        return not settled.receipt or not self._cast.shop.has_receipt(settled.receipt)


def exit_code(account: Account) -> Code:
    """0 only if everything that the demo promises held."""
    return Code.DONE if account.good else Code.FAILED
