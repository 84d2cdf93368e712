"""Reviewers and a confirmer: they look at the world and decide what they see, or too early."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ledger.core.commands import AttachEvidence, Caller, Payload, Reconcile, Request
from ledger.core.ids import RunId, StepId
from ledger.core.vocabulary import Verdict
from tests.model.door import Differs
from tests.model.runtimes import Stage
from tests.support.in_process import CONFIRMER, REVIEWER, REVIEWER_2, REVIEWER_3, RUNTIME

REPORTED = ("SUCCEEDED", "FAILED", "NO_EFFECT")


@dataclass
class Reviewers:
    """Whoever may decide, and two who may not: a runtime, and a person who drives runs."""

    stage: Stage
    driving: Caller
    looked_at: dict[tuple[str, str], int] = field(default_factory=dict)

    def act(self) -> str:
        """One of them decides about one step of the list, or attaches what he found."""
        chance = self.stage.chance
        waiting = self.listed()
        if not waiting:
            return "nobody waits for a reviewer"
        run, step = chance.choice(waiting)
        if chance.random() < 0.15:
            found = AttachEvidence(RunId(run), "asked", StepId(step["step"]), 0)
            return self._ask(found, chance.choice([CONFIRMER, REVIEWER]))
        command = self._decision(run, step)
        everybody = [REVIEWER, REVIEWER_2, REVIEWER_3, CONFIRMER, RUNTIME, self.driving]
        return self._ask(command, chance.choices(everybody, [6, 3, 3, 3, 1, 2])[0])

    def decide_all(self) -> None:
        """After everything: each step that waits is decided by somebody who may."""
        for run, step in self.listed():
            deciders = [REVIEWER, REVIEWER_2, REVIEWER_3, CONFIRMER]
            taken = {by for _, by in step["decisions"]}
            by = next(each for each in deciders if each.principal not in taken)
            self._ask(self._decision(run, step, stale=False), by)
        left = self.listed()
        if left:
            raise Differs(f"nobody could settle {left}")

    def listed(self) -> list[tuple[str, dict[str, Any]]]:
        """What waits for a decision; the ledger's list must say the same."""
        runs = self.stage.door.model.runs
        found = [
            (run, step)
            for run, known in runs.items()
            for step in known["steps"].values()
            if step["state"] == "UNKNOWN" or step["contra"]
        ]
        names = sorted(f"{run}/{step['step']}" for run, step in found)
        listed = sorted(self.stage.door.ledger.unknowns())
        if names != listed:
            raise Differs(f"the list of unknowns is {listed}, the model has {names}")
        return found

    def _decision(self, run: str, step: dict[str, Any], *, stale: bool = True) -> Reconcile:
        chance, decisions = self.stage.chance, step["decisions"]
        happened = self.stage.world.effects[(step["tool"], step["key"])]
        verdict = Verdict.EXECUTED if happened else Verdict.NOT_EXECUTED
        at = (run, step["step"])
        version = step["at"]
        if stale and chance.random() < 0.1:
            version = self.looked_at.get(at, version)
        self.looked_at[at] = step["at"]
        supersedes = decisions[-1][0] if decisions else None
        return Reconcile(
            RunId(run),
            StepId(step["step"]),
            verdict,
            "looked",
            version,
            supersedes,
            evidence=(Payload(b"statement"),),
        )

    def _ask(self, command: Reconcile | AttachEvidence, by: Caller) -> str:
        request: Request = self.stage.request(command, by)
        at = self.stage.chance.randrange(2)
        self.stage.door.deliver([request], at=at)
        verdict = getattr(command, "verdict", "evidence")
        return f"{by.principal} says {verdict} of {command.run}/{command.step} to {at}"
