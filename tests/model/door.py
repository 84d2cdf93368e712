"""The door to the ledger, with the model beside it: every answer and every entry is compared.

Real sequencers on a real store answer; the store's clock and the replicas' monotonic clocks stand
still between two moves of the test's `Clock`. Trouble of the store is made where the store lets
tests look at its statements: before COMMIT it did not happen, after COMMIT it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from threading import current_thread
from typing import Any

from ledger.core.answers import (
    Answered,
    CancelRequested,
    Completed,
    EvidenceAttached,
    Execute,
    Held,
    LeaseGranted,
    Marked,
    OutcomeUnknown,
    Planned,
    Reconciled,
    Replay,
    StartRefused,
    Withdrawn,
)
from ledger.core.commands import Caller, Payload, RenewLease, Request
from ledger.failures import Failure, FailureKind
from ledger.sequencer import RETRIES_MAX, Outcome
from ledger.store.errors import CommitUnknown, StoreUnavailable
from ledger.store.interface import Store
from ledger.store.opening import open_store
from ledger.store.rows import text
from ledger.store.settings import StoreSettings
from ledger.store.tables import ENTRIES
from tests.model.model import Model
from tests.support.driving import said
from tests.support.in_process import Clock, House, LedgerInProcess

START_US = 1_800_000_000_000_000


class _Reading(int):
    """A shift that makes the shifted clock read exactly this, whatever the host's clock says."""

    def __add__(self, host_us: int) -> int:
        return int(self)

    __radd__ = __add__


class StillClock(Clock):
    """Time that moves only when told. `off_us` is how wrong the database's clock is."""

    def __init__(self) -> None:
        self.elapsed_us = 0
        self.off_us = 0

    @property
    def database_us(self) -> int:  # type: ignore[override]
        """The database's clock, in place of its shift."""
        return _Reading(START_US + self.elapsed_us + self.off_us)

    def advance(self, seconds: float) -> None:
        """Lets time pass for everybody."""
        self.elapsed_us += round(seconds * 1_000_000)

    def reset(self) -> None:
        """As at first."""
        self.elapsed_us = self.off_us = 0

    def monotonic(self) -> int:
        """A replica's monotonic clock."""
        return self.elapsed_us


@dataclass
class Trouble:
    """What befalls the coming COMMITs: so many fail before they happen, or one after it."""

    before: int = 0
    after: int = 0

    def end(self) -> None:
        """What did not befall anything is over."""
        self.before = self.after = 0

    def observe(self, moment: str, kind: str) -> None:
        """See `ledger.store.settings.Observe`."""
        if kind != "commit" or not current_thread().name.startswith("sequencer-"):
            return
        if moment == "before" and self.before:
            self.before -= 1
            raise StoreUnavailable("the connection was lost before COMMIT")
        if moment == "after" and self.after:
            self.after -= 1
            raise CommitUnknown("the connection was lost while COMMIT was answered")


class StillHouse(House):
    """One database, at a clock that stands still between moves."""

    def __init__(self, url: str, folder: Path) -> None:
        super().__init__(url, folder)
        for store in self.stores:
            store.close()
        self.clock: StillClock = StillClock()
        self.trouble = Trouble()
        settings = StoreSettings(
            clock_shift_us=lambda: self.clock.database_us, observe=self.trouble.observe
        )
        self.stores: list[Store] = [open_store(url, settings) for _ in range(2)]


class Differs(AssertionError):
    """The ledger did something else than the model."""


@dataclass
class Door:
    """Delivers messages to a replica, and holds each answer and the log against the model."""

    ledger: LedgerInProcess
    model: Model = field(default_factory=Model)
    acknowledged: list[tuple[int, bytes]] = field(default_factory=list)
    at: list[int] = field(default_factory=lambda: [0, 1])
    words: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    _size: int = 0
    _may_fail: bool = False

    @property
    def house(self) -> StillHouse:
        """The database and its clock."""
        assert isinstance(self.ledger.house, StillHouse)
        return self.ledger.house

    @property
    def clock(self) -> StillClock:
        """The time."""
        return self.house.clock

    def restart(self, at: int) -> None:
        """A replica ends, and another takes its place without any memory of it."""
        self.restarts += 1
        self.ledger.replicas[self.at[at]].sequencer.drain(10)
        self.ledger.replica()
        self.at[at] = len(self.ledger.replicas) - 1

    def deliver(self, *messages: Sequence[Request], at: int = 0) -> list[list[Outcome]]:
        """Sends messages to a replica at once; its answers, where the model answers the same."""
        trouble = self.house.trouble
        self._may_fail = trouble.before >= RETRIES_MAX or trouble.after > 0
        answered = self.ledger.submit_at_once(*((self.at[at], each) for each in messages))
        self.house.trouble.end()
        self.check_nothing_broke()
        new = self._new_entries()
        now_us = self.now_us(at)
        for requests, outcomes in zip(messages, answered, strict=True):
            for request, outcome in zip(requests, outcomes, strict=True):
                if isinstance(outcome, Failure):
                    self._check_failure(outcome)
                else:
                    self._compare(request, outcome, new, now_us)
        self._check_entries(new)
        return answered

    def renew(self, caller: Caller, command: RenewLease, *, at: int = 0) -> str:
        """Renews a lease past the queue."""
        work = self.ledger.replicas[self.at[at]].sequencer.renew(caller, command)
        outcome = self.ledger.until_done(work)
        if isinstance(outcome, Failure):
            self._check_failure(outcome)
            return outcome.kind.name
        c = plain(command)
        expected = self.model.answer(
            _who(caller), "", "RenewLease", c, now=self.now_us(at), seen={}
        )
        got = said(outcome)
        if (got, _facts(outcome)) != (expected["word"], expected["facts"]):
            raise Differs(f"RenewLease: {got} {_facts(outcome)}, the model says {expected}")
        self.words[got] = self.words.get(got, 0) + 1
        return got

    def sweep(self, *, at: int = 0) -> None:
        """Lets a replica sweep, and the model do what is due."""
        self.house.trouble.before = 0
        self.ledger.sweep(at=self.at[at])
        self.house.trouble.end()
        self.check_nothing_broke()
        new = self._new_entries()
        self.model.sweep(list(dict.fromkeys(run for run, _ in new)), self.now_us(at))
        self._check_entries(new)

    def now_us(self, at: int) -> int:
        """The ledger time that a replica read last."""
        replica = self.ledger.replicas[self.at[at]]
        return replica.sequencer.time(self.ledger.tenant).shown_us(head_us=0, host_us=0)

    def check_nothing_broke(self) -> None:
        """No server stopped on a mistake of ours."""
        fatal = [fault for replica in self.ledger.replicas for fault in replica.fatal]
        if fatal:
            raise Differs(f"a server stopped on {fatal!r}")

    def _check_failure(self, outcome: Failure) -> None:
        if outcome.kind is not FailureKind.STORE_UNAVAILABLE or not self._may_fail:
            raise Differs(f"failed as {outcome.kind.name}, and the store would answer again")

    def _compare(
        self, request: Request, outcome: Answered, new: list[tuple[str, str]], now_us: int
    ) -> None:
        true_us = START_US + self.clock.elapsed_us
        if not outcome.now_us == now_us == true_us:
            raise Differs(f"decided at {outcome.now_us}, read {now_us}, and it was {true_us}")
        answer, append = outcome.answer, outcome.append
        facts = _facts(answer)
        losses = sum(type_ in ("step.unknown", "step.completed") for _, type_ in new)
        seen = {"contradiction": facts.get("contra"), "older": losses > self._own_losses(request)}
        expected = self.model.answer(
            _who(request.caller),
            request.id,
            request.method,
            plain(request.command),
            now=now_us,
            seen=seen,
        )
        word = said(answer)
        got = {
            "word": word,
            "facts": facts,
            "own": None if append is None else (append.index, append.entries),
        }
        wanted = {name: expected[name] for name in got}
        if got != wanted:
            raise Differs(f"{request.method} {request.command}:\n  {got}\n  model: {wanted}")
        self.words[word] = self.words.get(word, 0) + 1
        if append is not None:
            self.acknowledged.append((append.index, append.leaf))

    def _own_losses(self, request: Request) -> int:
        """How many attempts a release ends by its own token."""
        run = self.model.runs.get(getattr(request.command, "run", ""), {"steps": {}})
        token = getattr(request.command, "token", 0)
        started = [s for s in run["steps"].values() if s["state"] == "STARTED"]
        return sum(s["attempts"][-1]["token"] == token for s in started)

    def _new_entries(self) -> list[tuple[str, str]]:
        known = len(self.model.log)
        with self.ledger.store.read() as reading:
            rows = reading.page(
                ENTRIES,
                equal={"log": self.ledger.log.number},
                order=("idx",),
                after=(known - 1,) if known else None,
                limit=1000,
            )
        return [(text(row[2]), text(row[4])) for row in rows]

    def _check_entries(self, new: list[tuple[str, str]]) -> None:
        expected = self.model.log[self._size :]
        self._size = self._stored_size()
        if self._size != len(self.model.log) or expected != new:
            raise Differs(f"{self._size} entries stand, the newest {new}; the model has {expected}")

    def _stored_size(self) -> int:
        with self.ledger.store.read() as reading:
            return reading.head(self.ledger.log.number).size


def caller_of(ledger: LedgerInProcess, by: Caller) -> Caller:
    """The principal as one of the ledger's own tenant."""
    return replace(by, tenant=ledger.tenant)


def _who(caller: Caller) -> dict[str, Any]:
    roles = {role.value for role in caller.roles}
    return {"id": caller.principal, "kind": caller.kind.value, "roles": roles}


def plain(value: Any) -> Any:
    """A command as the model takes it: dicts, tuples, words, numbers and bytes."""
    if isinstance(value, Payload):
        return value.content
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    return value


def _facts(answer: Any) -> dict[str, Any]:
    """What is compared of an answer, by the model's names."""
    facts: dict[str, Any] = {}
    match answer:
        case LeaseGranted():
            facts = {"token": answer.token, "expires": answer.expires_us}
        case Execute():
            facts = {"token": answer.token, "attempt": answer.attempt}
            facts["deadline"] = answer.deadline_us
        case Held():
            facts = {"run": answer.run, "step": answer.step, "attempt": answer.attempt}
        case OutcomeUnknown():
            it = answer.unknown
            facts = {"run": it.run, "step": it.step, "attempt": it.attempt}
            facts["version"] = it.expected_version
        case Completed():
            facts = {"state": answer.state, "contra": answer.contradiction}
        case Marked() | Reconciled():
            facts = {"state": answer.state}
        case Planned():
            facts = {"keys": answer.keys}
        case EvidenceAttached():
            facts = {"contra": answer.contradiction}
        case CancelRequested():
            facts = {"closed": answer.closed}
        case _:
            facts = {}
    told = (Execute, Held, OutcomeUnknown, Replay, StartRefused)
    if isinstance(answer, (*told, LeaseGranted, Planned, Withdrawn, Completed, Marked)):
        facts["cancel"] = answer.cancel_requested
    return facts
