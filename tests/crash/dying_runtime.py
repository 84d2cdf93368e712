"""A real runtime on the SDK, and a real confirmer, that can be told where to die.

    python -m tests.crash.dying_runtime

Forks processes by orders from standard input, as `dying_server` does. Each is told by the variable
`LEDGER_TRIAL` what to do and in which window it, or its server, is to die.

The runtime drives each run through three steps, one after the other, each planned when its turn
comes. It keeps nothing between its lives: what it knows after a death it reads from the ledger.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from ledger.client import (
    DeadlinePassed,
    Effect,
    EffectClass,
    HeldByAnother,
    Ledger,
    OutcomeUnknown,
    Reason,
    Refused,
    ResumeStep,
    Run,
    Settings,
    Step,
    StepState,
    Verdict,
    methods,
)
from ledger.client.credentials import endpoint
from ledger.client.flow import Arrived, Flow, Send
from ledger.client.sync_wire import SyncWire
from ledger.v1 import types_pb2
from tests.crash.deaths import Death, Role, Victim, Window
from tests.crash.outside import Notes, World
from tests.support.forked_server import nurse, settle_in

VARIABLE: Final = "LEDGER_TRIAL"
WAITING: Final = 75
"""Exit code: a run waits for a decision, or for a dead holder's lease to run out."""
LEASE_S: Final = 8.0
OPERATION_S: Final = 6.0
"""Both end within one shift of the clock (`supervisor.SHIFT_S`)."""
TOOLS: Final = {"NON_IDEMPOTENT_WRITE": "ship", "IDEMPOTENT_WRITE": "label"}
_DONE: Final = (StepState.SUCCEEDED, StepState.RECONCILED_EXECUTED)
_ANSWERS: Final = {
    method.path: method.answer
    for method in vars(methods).values()
    if isinstance(method, type(methods.OPEN_RUN))
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Trial:
    """What a process is told. `classes` are the effect classes of a run's steps."""

    role: str
    server: str
    server_folder: str
    server_pid: int
    token: str
    folder: str
    runs: list[str]
    classes: list[str]
    death: dict[str, str | int] | None

    def text(self) -> str:
        """For the variable."""
        return json.dumps(asdict(self))


class Fate:
    """Brings about the one death that was ordered, when its window is passed the nth time."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._death = Death.of(trial.death) if trial.death else None
        self._passed = 0

    def reach(self, window: Window) -> None:
        """A window between calls."""
        death = self._due(lambda death: death.window is window)
        if death is None:
            return
        self._tell(death)
        if death.victim is not Victim.CLIENT:
            os.kill(self._trial.server_pid, signal.SIGKILL)
        if death.victim is not Victim.SERVER:
            os.kill(os.getpid(), signal.SIGKILL)

    def sending(self, call: str) -> None:
        """A window inside a call that is about to be sent. The server dies at its COMMIT. This
        process dies by its supervisor, once its request or the answer was swallowed, or with the
        server."""
        death = self._due(lambda death: death.window.call == call)
        if death is None:
            return
        self._tell(death)
        if death.victim is Victim.CLIENT:
            swallowed = "answer" if death.window.commits else "request"
            _put(Path(self._trial.folder) / "withhold", swallowed)
        else:
            moment = "after" if death.window.commits else "before"
            _put(Path(self._trial.server_folder) / "order", f"die 1 {moment} commit")

    def _due(self, matches: Callable[[Death], bool]) -> Death | None:
        if self._death is None or not matches(self._death):
            return None
        self._passed += 1
        return self._death if self._passed == self._death.nth else None

    def _tell(self, death: Death) -> None:
        _put(Path(self._trial.folder) / "reached", death.window.value)


class TrialWire(SyncWire):
    """The SDK's own wire. Calls pass the fate on their way out; what was acknowledged is noted."""

    def __init__(self, trial: Trial, settings: Settings, fate: Fate) -> None:
        where = endpoint(
            trial.server,
            token=trial.token,
            message_bytes_max=settings.limits.message_bytes_max,
        )
        super().__init__(where, settings)
        self._fate = fate
        self._notes = Notes(Path(trial.folder))

    def drive(self, flow: Flow[T]) -> T:
        """See `SyncWire.drive`."""
        return super().drive(self._watched(flow))

    def _watched(self, flow: Flow[T]) -> Flow[T]:
        told: set[bytes] = set()
        try:
            action = next(flow)
            while True:
                if isinstance(action, Send) and action.body not in told:
                    told.add(action.body)
                    self._fate.sending(action.path.rpartition("/")[2])
                event = yield action
                if isinstance(action, Send) and isinstance(event, Arrived):
                    self._note(action.path, event.body)
                action = flow.send(event)
        except StopIteration as end:
            answer: T = end.value
            return answer

    def _note(self, path: str, body: bytes) -> None:
        answer: Any = _ANSWERS[path].FromString(body)
        if "append" in answer.DESCRIPTOR.fields_by_name and answer.HasField("append"):
            append: types_pb2.Append = answer.append
            self._notes.note(index=append.index, leaf=append.leaf_hash)


class Runtime:
    """Drives every run as far as it goes; each action must happen once in the world."""

    def __init__(self, client: Ledger, trial: Trial, fate: Fate) -> None:
        self._client = client
        self._trial = trial
        self._fate = fate
        self._world = World(Path(trial.folder))

    def work(self) -> int:
        """Answers the exit code."""
        known = {info.run: bool(info.status) for info in self._client.runs()}
        ended = 0
        for name in self._trial.runs:
            if known.get(name):
                continue
            try:
                with (
                    self._client.resume(name, holder="worker", ttl_s=LEASE_S)
                    if name in known
                    else self._client.run(name, holder="worker", ttl_s=LEASE_S)
                ) as run:
                    self._drive(run)
            except (OutcomeUnknown, HeldByAnother, DeadlinePassed):
                ended = WAITING
            except Refused as refused:
                if refused.reason not in (Reason.LEASE_EXPIRED, Reason.STALE_LEASE):
                    raise
                ended = WAITING
        return ended

    def _drive(self, run: Run) -> None:
        previous = ""
        for number, effect_class in enumerate(self._trial.classes, start=1):
            root = f"s{number}"
            step = self._newest(run, root)
            if step is None or step.info.state is StepState.RECONCILED_NOT_EXECUTED:
                self._plan(run, root, after=previous, instead_of=step, effect_class=effect_class)
                self._fate.reach(Window.AFTER_PLAN)
                step = self._newest(run, root)
            assert step is not None
            if step.info.state not in _DONE:
                self._perform(run, step, root)
            previous = step.step
        run.close()

    def _newest(self, run: Run, root: str) -> ResumeStep | None:
        family = [s for s in run.state().steps if s.step.partition(".")[0] == root]
        return family[-1] if family else None

    def _plan(
        self, run: Run, root: str, *, after: str, instead_of: ResumeStep | None, effect_class: str
    ) -> None:
        name, supersedes = root, ""
        if instead_of is not None:
            number = int(instead_of.step.partition(".")[2] or 1)
            name, supersedes = f"{root}.{number + 1}", instead_of.info.key
        step = Step(
            name,
            tool=TOOLS[effect_class],
            version="1",
            arguments={"action": root, "run": run.run},
            effect_class=EffectClass[effect_class],
            after=(after,) if after else (),
            supersedes=supersedes,
        )
        run.plan([step])

    def _perform(self, run: Run, step: ResumeStep, action: str) -> None:
        self._fate.reach(Window.BEFORE_START)
        with run.effect(step.step, timeout_s=OPERATION_S) as effect:
            if effect.execute:
                self._act(effect, run.run, action)
                self._fate.reach(Window.BEFORE_COMPLETE)
                effect.succeeded({"done": action})

    def _act(self, effect: Effect, run: str, action: str) -> None:
        """The tool. It stops at its deadline: its effect happens before that or never."""
        self._fate.reach(Window.BEFORE_EFFECT)
        effect.begun.require_in_time()
        self._world.act(run=run, action=action, key=effect.key)
        self._fate.reach(Window.AFTER_EFFECT)


def confirm(client: Ledger, trial: Trial) -> int:
    """Settles every unknown of the runs by what the world has. Answers the exit code."""
    world = World(Path(trial.folder))
    for unknown in client.unknowns():
        if unknown.run not in trial.runs:
            continue
        done = world.has_done(unknown.key)
        client.reconcile(
            unknown,
            Verdict.EXECUTED if done else Verdict.NOT_EXECUTED,
            reason_code="asked_the_world",
            evidence=[{"done": int(done)}],
        )
    return 0


def _put(path: Path, words: str) -> None:
    fresh = path.with_name(f"{path.name}-next")
    fresh.write_text(words, encoding="utf-8")
    fresh.rename(path)


def become_client(order: dict[str, Any]) -> NoReturn:
    """Turns this forked child into the process that `order` describes."""
    settle_in(order)
    status = 1
    try:
        trial = Trial(**json.loads(os.environ[VARIABLE]))
        settings = Settings()
        fate = Fate(trial)
        with Ledger(TrialWire(trial, settings, fate), settings) as client:
            if trial.role == Role.CONFIRMER:
                status = confirm(client, trial)
            else:
                status = Runtime(client, trial, fate).work()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Starts runtimes and confirmers."""
    nurse(become_client)


if __name__ == "__main__":
    main()
