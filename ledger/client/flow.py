"""What to do next, as values: a flow is written once and driven by the sync and the asyncio client.

A flow is a generator. It yields an action (send these bytes, pause), is sent what came of it, and
returns its answer or raises. It does no I/O itself, so every decision of the SDK stands here and
in the flows that build on it, and the two clients differ in nothing but the await.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from google.protobuf.message import Message

from ledger.client.checks import Limits, check_message_size
from ledger.client.clock import elapsed_s
from ledger.client.failures import Failure, error_of
from ledger.client.head_memory import HeadMemory
from ledger.client.retry import GiveUp, RetryPolicy, Wait
from ledger.client.words import Durability

A = TypeVar("A", bound=Message)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Method(Generic[A]):
    """A call of the wire: its path and the type of its answer.

    `safe` means that it appends nothing.
    """

    path: str
    answer: type[A]
    largest: str = "request"
    safe: bool = False

    @property
    def name(self) -> str:
        """The call's own name, such as `StartStep`."""
        return self.path.rpartition("/")[2]

    def left_by(self, failure: Failure) -> Durability:
        """What a try of this call that failed so may have left on the log."""
        return Durability.NOT_COMMITTED if self.safe else failure.durability


@dataclass(frozen=True, slots=True)
class Send:
    """Send these bytes and wait at most `timeout_s` for the answer."""

    path: str
    body: bytes = field(repr=False)
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for this long."""

    pause_s: float


Action: TypeAlias = Send | Pause


@dataclass(frozen=True, slots=True)
class Arrived:
    """An answer's bytes, and the clock's reading from before its request was sent."""

    body: bytes = field(repr=False)
    sent_at_s: float


@dataclass(frozen=True, slots=True)
class Paused:
    """The pause is over."""


Event: TypeAlias = Arrived | Failure | Paused
Flow: TypeAlias = Generator[Action, Event, T]


@dataclass(frozen=True, slots=True)
class Answered(Generic[A]):
    """A decoded answer. Durations in it count from no earlier than `sent_at_s` on our clock."""

    message: A
    sent_at_s: float


@dataclass(frozen=True, slots=True)
class Settings:
    """What every flow of a client shares.

    `retry` bounds each call, `best_effort` a record that may be dropped, `leaving` what is told
    when a body or run is left by an interrupt. `head` is never shared: each client has its own.
    """

    limits: Limits = field(default_factory=Limits)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    best_effort: RetryPolicy = field(default_factory=lambda: RetryPolicy(deadline_s=2.0, try_s=2.0))
    leaving: RetryPolicy = field(default_factory=lambda: RetryPolicy(deadline_s=5.0, try_s=5.0))
    clock: Callable[[], float] = elapsed_s
    jitter: Callable[[], float] = random.random
    head: HeadMemory = field(default_factory=HeadMemory, compare=False, repr=False)


def answered(
    settings: Settings, method: Method[A], request: Message, *, policy: RetryPolicy | None = None
) -> Flow[Answered[A]]:
    """Send one request until it is answered, its failure stands, or the policy's deadline is
    past.

    The bytes, and with them the request id, are made once and are the same in every try. Raises
    what `error_of` makes of the last failure; the durability it names speaks of all tries, because
    an earlier one may still be queued or committing when a later one is turned away.
    """
    policy = policy or settings.retry
    settings.head.tell(request)
    body = request.SerializeToString()
    check_message_size(len(body), largest=method.largest, limits=settings.limits)
    began_s = settings.clock()
    tries = 0
    unclear = False
    while True:
        timeout_s = policy.try_timeout_s(elapsed_s=settings.clock() - began_s)
        event = yield Send(method.path, body, timeout_s)
        tries += 1
        if isinstance(event, Arrived):
            message = method.answer.FromString(event.body)
            settings.head.note(message)
            return Answered(message, event.sent_at_s)
        if not isinstance(event, Failure):
            raise TypeError(f"a Send was answered with {event!r}")
        unclear = unclear or method.left_by(event) is Durability.MAYBE_COMMITTED
        after = policy.after(
            event, tries=tries, elapsed_s=settings.clock() - began_s, jitter=settings.jitter()
        )
        match after:
            case Wait(pause_s):
                yield Pause(pause_s)
            case GiveUp():
                durability = Durability.MAYBE_COMMITTED if unclear else Durability.NOT_COMMITTED
                raise error_of(event, method=method.name, tries=tries, durability=durability)
