"""The actors of the simulation: runtimes that drive runs, honestly, and die; and reviewers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from ledger.core.answers import Answered, Execute, LeaseGranted
from ledger.core.commands import (
    AcquireLease,
    AttachEvidence,
    Caller,
    CloseRun,
    Command,
    CompleteStep,
    MarkUnknown,
    OpenRun,
    Payload,
    PlanSteps,
    ReleaseLease,
    RenewLease,
    Request,
    RequestCancel,
    StartStep,
    WithdrawStep,
)
from ledger.core.ids import HolderName, ProcessNonce, RunId, StepId, ToolVersion, uuid7
from ledger.core.vocabulary import EffectClass, Outcome, RunStatus
from tests.model.door import START_US, Door, caller_of
from tests.model.network import Message, Network
from tests.model.world import Call, World
from tests.support.driving import Driver

TOOLS = {
    "send": EffectClass.NON_IDEMPOTENT_WRITE,
    "put": EffectClass.IDEMPOTENT_WRITE,
    "look-up": EffectClass.READ_ONLY,
}
OPEN_ENDED = ("PLANNED", "NO_EFFECT", "UNKNOWN", "STARTED", "FAILED")


@dataclass
class Attempt:
    """An EXECUTE that this process was given, and the call that it made."""

    run: str
    step: str
    number: int
    token: int
    call: Call


@dataclass
class Stage:
    """What all actors share. `runs` are the ids in use."""

    door: Door
    network: Network
    world: World
    chance: Random
    runs: list[str] = field(default_factory=lambda: ["run-1", "run-2", "run-3"])
    made: int = 0

    def request(self, command: Command, by: Caller) -> Request:
        """A request under an id that the seed decides."""
        self.made += 1
        unix_ms = (START_US + self.door.clock.elapsed_us) // 1000
        under = uuid7(unix_ms=unix_ms, random=self.chance.randbytes(10))
        return self.door.ledger.request(command, by=by, under=under)

    def run(self, run: str) -> dict[str, Any]:
        """A run as the model has it: what a client would read before it acts."""
        found: dict[str, Any] = self.door.model.runs.get(run, {})
        return found


@dataclass
class Runtime:
    """A process that drives runs: what it was told, and what it may do because of that."""

    stage: Stage
    by: Caller
    name: str
    life: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    waiting: Message | None = None

    @property
    def process(self) -> ProcessNonce:
        """The nonce of the present life."""
        return ProcessNonce(f"{self.name}-life-{self.life}-of-this-process")

    def die(self) -> str:
        """Comes back under another nonce and knows nothing; it may find its last message kept."""
        kept = self.waiting if self.stage.chance.random() < 0.5 else None
        self.life += 1
        self.tokens, self.attempts, self.waiting = {}, [], None
        if kept is None:
            return f"{self.name} dies"
        again = [self._under_this_nonce(each) for each in kept.requests]
        self.waiting = Message(again, self._told, self.stage.door.clock.elapsed_us)
        return f"{self.name} dies and finds {_named(again)}"

    def _under_this_nonce(self, request: Request) -> Request:
        command = request.command
        if isinstance(command, AcquireLease | PlanSteps | StartStep | WithdrawStep | CloseRun):
            return replace(request, command=replace(command, process=self.process))
        return request

    def act(self) -> str:
        """One move; says which."""
        stage, chance = self.stage, self.stage.chance
        at = chance.randrange(2)
        if self.waiting is not None:
            if chance.random() < 0.15:
                self.waiting = None
                return f"{self.name} gives up waiting"
            return self._send(self.waiting, at, "again ")
        run = self._some_run()
        if chance.random() < 0.1 and self.tokens.get(run):
            command = RenewLease(RunId(run), self.tokens[run], self.process, self._ttl_ms())
            by = caller_of(stage.door.ledger, self.by)
            return f"{self.name} renews {run}: {stage.door.renew(by, command, at=at)}"
        commands = self._commands(run)
        requests = [stage.request(command, self.by) for command in commands]
        self.waiting = Message(requests, self._told, stage.door.clock.elapsed_us)
        return self._send(self.waiting, at, "")

    def _some_run(self) -> str:
        """Mostly one that it drives, else one that nobody drives; sometimes any, whoever's."""
        known = {run: self.stage.run(run) for run in self.stage.runs}
        mine = [r for r in known if known[r] and known[r]["token"] == self.tokens.get(r)]
        free = [r for r in known if not known[r] or known[r]["ended"] or not known[r]["token"]]
        for apt in (mine, free):
            if apt and self.stage.chance.random() < 0.75:
                return self.stage.chance.choice(apt)
        return self.stage.chance.choice(self.stage.runs)

    def _send(self, message: Message, at: int, again: str) -> str:
        fate = self.stage.network.send(message, at=at)
        return f"{self.name} sends {again}{_named(message.requests)} to {at}: {fate}"

    def _ttl_ms(self) -> int:
        return self.stage.chance.choice([5_000, 20_000, 60_000])

    def _commands(self, run: str) -> list[Command]:
        chance, known = self.stage.chance, self.stage.run(run)
        id_, acquire = RunId(run), self._acquire(run)
        if not known:
            return [OpenRun(id_), acquire] if chance.random() < 0.7 else [OpenRun(id_)]
        token = self.tokens.get(run)
        now_us = START_US + self.stage.door.clock.elapsed_us
        live = not known["ended"] and known["expires"] > now_us
        mine = live and token == known["token"] and known["process"] == self.process
        if token is None or (not mine and chance.random() < 0.8):
            return [acquire]
        kind = chance.choices(["plan", "start", "report", "both", "other"], [20, 30, 40, 15, 9])[0]
        attempts = [each for each in self.attempts if each.run == run]
        if kind == "report" and attempts:
            return [self._report(chance.choice(attempts))]
        if kind == "plan" or not known["steps"]:
            return [self._plan(run, token)[0]]
        if kind == "both":
            plan, step = self._plan(run, token)
            return [plan, self._start(run, token, step)]
        if kind == "other":
            return [self._seldom(run, token)]
        return [self._start(run, token, self._some_step(known, *OPEN_ENDED))]

    def _acquire(self, run: str) -> AcquireLease:
        return AcquireLease(RunId(run), HolderName(self.name), self.process, self._ttl_ms())

    def _some_step(self, known: dict[str, Any], *states: str) -> str:
        steps: dict[str, Any] = known["steps"]
        apt = [name for name, step in steps.items() if step["state"] in states]
        return self.stage.chance.choice(
            apt if apt and self.stage.chance.random() < 0.9 else list(steps)
        )

    def _start(self, run: str, token: int, step: str) -> StartStep:
        seconds = self.stage.chance.choice([1, 10, 30, 60])
        return StartStep(
            RunId(run), StepId(step), token, self.process, ToolVersion("1"), seconds * 1000
        )

    def _plan(self, run: str, token: int) -> tuple[PlanSteps, str]:
        chance, known = self.stage.chance, self.stage.run(run)
        steps = known.get("steps", {})
        name = f"s{chance.randrange(len(steps) + 2)}"
        tool = chance.choices(list(TOOLS), [5, 3, 2])[0]
        key = chance.choice(["", "", f"k{chance.randrange(4)}", f"k{chance.randrange(40)}"])
        about = key or f"{run}/{name}"
        if chance.random() < 0.15:
            about = f"{run}/s{chance.randrange(len(steps) + 2)}"
        spent = [s for s in steps.values() if s["state"] in ("FAILED", "RECONCILED_NOT_EXECUTED")]
        over = ""
        if spent and chance.random() < 0.5:
            old = chance.choice([s for s in spent if s["write"]] or spent)
            tool, over, about = old["tool"], old["key"], old["arguments"].decode()
            key = f"after.{self.stage.made}"
        driver = Driver(self.stage.door.ledger, RunId(run), self.process, self.by, token)
        after = [chance.choice(list(steps))] if steps and chance.random() < 0.2 else []
        plan = driver.step_plan(
            name,
            tool=tool,
            effect=TOOLS[tool],
            key=key if TOOLS[tool].is_write else "",
            supersedes=over,
            after=[each for each in after if each != name],
            arguments=about.encode(),
        )
        return PlanSteps(RunId(run), token, self.process, (plan,)), name

    def _report(self, attempt: Attempt) -> Command:
        """What this process honestly knows of its call."""
        chance, call = self.stage.chance, attempt.call
        self.stage.world.running(self.stage.door.clock.elapsed_us)
        place = (RunId(attempt.run), StepId(attempt.step), attempt.number, attempt.token)
        if call.over == "done" and chance.random() < 0.9:
            return CompleteStep(*place, Outcome.SUCCEEDED, Payload(b"done"))
        if call.over == "refused":
            return CompleteStep(*place, chance.choice([Outcome.NO_EFFECT, Outcome.FAILED]))
        return MarkUnknown(*place, "timeout")

    def _seldom(self, run: str, token: int) -> Command:
        chance, known, id_ = self.stage.chance, self.stage.run(run), RunId(run)
        step = StepId(self._some_step(known, "PLANNED"))
        match chance.randrange(6):
            case 0:
                return ReleaseLease(id_, token)
            case 1:
                return WithdrawStep(id_, step, token, self.process)
            case 2:
                return CloseRun(id_, token, self.process, chance.choice(list(RunStatus)))
            case 3:
                return RequestCancel(id_)
            case _:
                return AttachEvidence(id_, "note", step, evidence=(Payload(b"seen"),))

    def _told(self, message: Message, answers: list[Answered]) -> None:
        """Only what this life still waits for is heard; only EXECUTE makes a tool run."""
        if message is not self.waiting:
            return
        self.waiting = None
        for request, answered in zip(message.requests, answers, strict=True):
            command, answer = request.command, answered.answer
            if isinstance(command, AcquireLease) and isinstance(answer, LeaseGranted):
                self.tokens[command.run] = answer.token
            if isinstance(command, StartStep) and isinstance(answer, Execute):
                self._execute(command, answer, message.sent_us)

    def _execute(self, command: StartStep, answer: Execute, sent_us: int) -> None:
        stops_us = sent_us + command.operation_ms * 1000
        if self.stage.door.clock.elapsed_us >= stops_us:
            return
        step = self.stage.run(command.run)["steps"][command.step]
        call = Call(step["tool"], answer.key, stops_us)
        world = self.stage.world
        if step["supersedes"]:
            world.place_of[(call.tool, call.key)] = step["supersedes"]
        world.calls.append(call)
        self.attempts.append(Attempt(command.run, command.step, answer.attempt, answer.token, call))


def _named(requests: Any) -> str:
    return " + ".join(
        f"{each.method}({each.command.run}/{getattr(each.command, 'step', '')} {each.id[-6:]})"
        for each in requests
    )
