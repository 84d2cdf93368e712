"""Confirmers: trusted code that asks the system of record what came of an unknown step.

    def confirmer(unknown: UnknownStep) -> Executed | NotExecuted | CannotTell:
        payment = provider.find(unknown.key)
        return Executed(external_reference=payment.id) if payment else NotExecuted()

Only a definite answer decides. An error, a question that takes too long and `CannotTell` are
recorded as evidence, by the ledger once for each attempt and cause, and leave the step for a
person. "Not executed" counts only if it was asked for after the call could land no more.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeAlias, assert_never

from ledger.client import requests
from ledger.client.errors import LedgerError, Refused
from ledger.client.payloads import ABSENT, Absent, Content
from ledger.client.sync_ledger import Ledger
from ledger.client.values import UnknownStep
from ledger.client.words import Reason, Verdict


@dataclass(frozen=True, slots=True)
class Executed:
    """The system of record has it. `result` is what a REPLAY then hands out. Everything but the
    code is stored sealed; `reason` is for the people who look at the decision later."""

    result: Content | Absent = field(default=ABSENT, repr=False)
    external_reference: str | None = field(default=None, repr=False)
    evidence: Sequence[Content] = field(default=(), repr=False)
    reason_code: str = "found"
    reason: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class NotExecuted:
    """The system of record surely does not have it, and would by now."""

    evidence: Sequence[Content] = field(default=(), repr=False)
    reason_code: str = "not_found"
    reason: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class CannotTell:
    """Neither yes nor no. `reason` is for the person who then looks; it is stored sealed."""

    reason: str = field(repr=False)


Answer: TypeAlias = Executed | NotExecuted | CannotTell


class Confirmer(Protocol):
    """Asks the system of record, by `unknown.key`. A plain or an async function will do.

    It must only look, never act. It may be called again for the same step, by several threads at
    once, and each call in an event loop of its own. What it raises counts as "cannot tell".
    """

    def __call__(self, unknown: UnknownStep, /) -> Answer | Awaitable[Answer]: ...


@dataclass(frozen=True, slots=True)
class Settled:
    """A decision was recorded; `index` is its entry's, None if it was recorded before."""

    unknown: UnknownStep
    verdict: Verdict
    index: int | None


@dataclass(frozen=True, slots=True)
class Waits:
    """Not found, but the call may still land: it is asked again after `until`."""

    unknown: UnknownStep
    until: datetime


@dataclass(frozen=True, slots=True)
class LeftForPerson:
    """Not settled. `why` is an id: a cause, or the ledger's reason for refusing the decision."""

    unknown: UnknownStep
    why: str


Found: TypeAlias = Settled | Waits | LeftForPerson

_TIMEOUT = "confirmer_timeout"
_ERROR = "confirmer_error"
_CANNOT_TELL = "confirmer_cannot_tell"
_BUSY = "confirmer_busy"


class Confirming:
    """Asks one confirmer about unknown steps, at most `concurrency` at once, and settles them.

    `timeout_s` bounds each question. A blocking confirmer cannot be stopped: it keeps its place
    until it returns, and where no place gets free in that time a step is left without being asked.
    `clock_margin_s` is by how much this host's clock may be ahead of the ledger's.

    Safe to run twice at once and to kill anywhere: each decision names the version of the step that
    was asked about, so nothing is settled twice.
    """

    def __init__(
        self,
        ledger: Ledger,
        confirmer: Confirmer,
        *,
        timeout_s: float = 30.0,
        concurrency: int = 4,
        clock_margin_s: float = 1.0,
    ) -> None:
        self._ledger = ledger
        self._confirmer = confirmer
        self._timeout_s = timeout_s
        self._concurrency = concurrency
        self._margin = timedelta(seconds=clock_margin_s)
        self._places = threading.Semaphore(concurrency)

    def settle_all(self, unknowns: Iterable[UnknownStep]) -> Iterator[Found]:
        """What came of each, in the order it was found. Raises the ledger's own failures."""
        pool = ThreadPoolExecutor(self._concurrency, "confirming")
        try:
            asked = [pool.submit(self.settle, each) for each in unknowns]
            for done in as_completed(asked):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def settle(self, unknown: UnknownStep) -> Found:
        """Ask about one step, and decide it where the answer is definite and lawful now."""
        asked_at = datetime.now(UTC)
        said = self._ask(unknown)
        match said:
            case str():
                return LeftForPerson(unknown, said)
            case Executed():
                return self._decide(unknown, said, Verdict.EXECUTED)
            case NotExecuted():
                until = unknown.not_executed_from
                if until is not None and asked_at < until + self._margin:
                    return Waits(unknown, until + self._margin)
                return self._decide(unknown, said, Verdict.NOT_EXECUTED)
            case CannotTell(reason):
                return self._leave(unknown, _CANNOT_TELL, {"reason": reason})
            case TimeoutError():
                return self._leave(unknown, _TIMEOUT, {"timeout_ms": round(self._timeout_s * 1e3)})
            case BaseException():
                return self._leave(unknown, _ERROR, {"type": type(said).__name__})
            case _:
                assert_never(said)

    def _ask(self, unknown: UnknownStep) -> Answer | BaseException | str:
        """What the confirmer said or raised; a `str` is why it was not asked at all."""
        if not self._places.acquire(timeout=self._timeout_s):
            return _BUSY
        said: list[Answer | BaseException] = []

        def ask() -> None:
            try:
                said.append(asyncio.run(_said(self._confirmer, unknown, self._timeout_s)))
            finally:
                self._places.release()

        # A daemon: a confirmer that hangs must not keep the process from ending.
        thread = threading.Thread(target=ask, name="asking", daemon=True)
        thread.start()
        thread.join(self._timeout_s)
        if thread.is_alive():
            return TimeoutError()
        return said[0] if said else SystemExit()

    def _decide(
        self, unknown: UnknownStep, answer: Executed | NotExecuted, verdict: Verdict
    ) -> Found:
        evidence = list(answer.evidence)
        result: Content | Absent = ABSENT
        if isinstance(answer, Executed):
            result = answer.result
            if answer.external_reference is not None:
                evidence.append({"external_reference": answer.external_reference})
        try:
            decided = self._ledger.reconcile(
                unknown,
                verdict,
                reason_code=answer.reason_code,
                reason=answer.reason,
                evidence=evidence,
                result=result,
                supersedes_index=unknown.decision_index,
            )
        except Refused as refused:
            if refused.reason is Reason.TOO_EARLY:
                until = _not_before(refused) or datetime.now(UTC)
                return Waits(unknown, until + self._margin)
            if refused.reason is not Reason.PROPOSAL_REQUIRED:
                return LeftForPerson(unknown, refused.reason.name)
        else:
            index = decided.append.index if decided.append else None
            return Settled(unknown, verdict, index)
        return self._propose(unknown, verdict, answer, evidence, result)

    def _propose(
        self,
        unknown: UnknownStep,
        verdict: Verdict,
        answer: Executed | NotExecuted,
        evidence: Sequence[Content],
        result: Content | Absent,
    ) -> Found:
        """Where two people decide: the answer is a proposal that a person confirms."""
        executed = verdict is Verdict.EXECUTED
        if all(proposal.executed is not executed for proposal in unknown.proposals):
            try:
                self._ledger.propose(
                    unknown,
                    verdict,
                    reason_code=answer.reason_code,
                    reason=answer.reason,
                    evidence=evidence,
                    result=result,
                    supersedes_index=unknown.decision_index,
                )
            except Refused as refused:
                return LeftForPerson(unknown, refused.reason.name)
        return LeftForPerson(unknown, "proposed")

    def _leave(self, unknown: UnknownStep, cause: str, fact: Content) -> LeftForPerson:
        command = requests.attach_evidence(
            unknown.run, step=unknown.step, attempt=unknown.attempt, kind=cause, evidence=[fact]
        )
        (answer,) = self._ledger.submit([command])
        if isinstance(answer, LedgerError) and not isinstance(answer, Refused):
            raise answer
        return LeftForPerson(unknown, cause)


async def _said(
    confirmer: Confirmer, unknown: UnknownStep, timeout_s: float
) -> Answer | BaseException:
    async def call() -> Answer:
        said = confirmer(unknown)
        answer = await said if inspect.isawaitable(said) else said
        if not isinstance(answer, Executed | NotExecuted | CannotTell):
            raise TypeError(f"a confirmer answered {type(answer).__name__}")
        return answer

    # What a confirmer raises is an answer of its own kind, never the end of the loop.
    (said,) = await asyncio.gather(asyncio.wait_for(call(), timeout_s), return_exceptions=True)
    return said


def _not_before(refused: Refused) -> datetime | None:
    text = refused.refusal.details.get("not_before", "")
    return datetime.fromisoformat(text) if text else None
