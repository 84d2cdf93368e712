"""A network that loses requests and answers, doubles them, and delivers them late.

A client keeps at most one message in the air and sends the same one again until it is answered or
given up; an answer that comes later is still told to it while it waits for that very message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from ledger.core.answers import Answered
from ledger.core.commands import Request
from tests.model.door import Door

Told = Callable[["Message", list[Answered]], None]


@dataclass(eq=False)
class Message:
    """Requests that go together. `sent_us` is when they were first sent."""

    requests: Sequence[Request]
    told: Told
    sent_us: int


@dataclass
class Network:
    """Between clients and two replicas."""

    door: Door
    chance: Random
    late: list[Message] = field(default_factory=list)
    fates: dict[str, int] = field(default_factory=dict)

    def send(self, message: Message, *, at: int) -> str:
        """Sends a message, or sends it again; says what befell it."""
        weights = {"ok": 70, "lost": 7, "answer lost": 9, "doubled": 7, "late": 7}
        fate = self.chance.choices(list(weights), list(weights.values()))[0]
        self.fates[fate] = self.fates.get(fate, 0) + 1
        if fate in ("late", "doubled"):
            self.late.append(message)
        if fate in ("ok", "answer lost", "doubled"):
            self._deliver([message], at=at, answers=fate != "answer lost")
        return fate

    def deliver_late(self, *, at: int) -> int:
        """Some of what is late arrives, at once; how many messages."""
        count = self.chance.randint(1, 3)
        arriving, self.late = self.late[:count], self.late[count:]
        if arriving:
            self._deliver(arriving, at=at, answers=True)
        return len(arriving)

    def _deliver(self, messages: list[Message], *, at: int, answers: bool) -> None:
        answered = self.door.deliver(*(message.requests for message in messages), at=at)
        for message, outcomes in zip(messages, answered, strict=True):
            told = [each for each in outcomes if isinstance(each, Answered)]
            if answers and len(told) == len(outcomes):
                message.told(message, told)
