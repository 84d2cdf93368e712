"""Reading runs: as they stand, for a new process to resume, and what waits for a decision.

Each method reads in one snapshot of committed rows, so its answer is one moment of the record and
holds everything acknowledged before the call. All of them block: call them from a thread. Raises
what the store raises; an outage is never an empty list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ledger.core.answers import Replay, UnknownStep
from ledger.core.claims import Claim
from ledger.core.commands import Caller
from ledger.core.decide.guards import not_understood, run_closed, run_not_found, stale_lease
from ledger.core.decide.waiting import what_it_waits_for
from ledger.core.log import Log
from ledger.core.refusals import Reason, Refused
from ledger.core.run import Run
from ledger.core.step import Step
from ledger.core.times import format_time
from ledger.core.vocabulary import EffectClass, Role, StepState
from ledger.paging import Page, write_token
from ledger.store.inline import ClaimRows
from ledger.store.interface import Reading, Store, StoredHead
from ledger.vault import Gone, Vault
from ledger.views import (
    FORBIDDEN_CONTENT,
    NO_CONTENT,
    Availability,
    ResumePage,
    ResumeStep,
    RunPage,
    RunView,
    StepsPage,
    StoredContent,
    UnknownPage,
)

_SETTLED = frozenset(
    {
        StepState.SUCCEEDED,
        StepState.FAILED,
        StepState.RECONCILED_EXECUTED,
        StepState.RECONCILED_NOT_EXECUTED,
        StepState.WITHDRAWN,
    }
)


class ViewRows(Protocol):
    """Folded runs, steps and unknowns by page. `projections` keeps it, `server.py` wires it."""

    def run(self, reading: Reading, log: Log, run_id: str) -> Run | None:
        """The run with its newest lease, without its steps."""

    def runs(
        self,
        reading: Reading,
        log: Log,
        *,
        open_only: bool,
        after: tuple[int, str] | None,
        limit: int,
    ) -> list[Run]:
        """Runs by (time of last change, id), newest first, with their leases, without steps."""

    def steps(
        self, reading: Reading, log: Log, run_id: str, *, after: int, limit: int
    ) -> list[Step]:
        """Steps in the order they were planned, from ordinal `after` + 1 on."""

    def steps_changed(self, reading: Reading, log: Log, run_id: str, *, since: int) -> list[Step]:
        """Every step that an entry above run version `since` touched, by that version."""

    def unknowns(
        self,
        reading: Reading,
        log: Log,
        *,
        run: str,
        after: tuple[int, int, str, str] | None,
        limit: int,
    ) -> list[tuple[int, UnknownStep]]:
        """(rank, step) waiting for a decision, by (rank, since, run, step). `run` empty: of all."""


NowUs = Callable[[Log, StoredHead], int]
"""Ledger time now, as this replica reads it without the head's lock."""


@dataclass(frozen=True, slots=True)
class _Claims:
    """The claims that `what_it_waits_for` asks for, in one snapshot."""

    reading: Reading
    log: Log
    rows: ClaimRows

    def claim(self, *, tool: str, key: str) -> Claim | None:
        return self.rows.claims(self.reading, self.log, [(tool, key)]).get((tool, key))


class RunReader:
    """Reads runs of any tenant; the log says whose."""

    def __init__(
        self, *, store: Store, rows: ViewRows, claims: ClaimRows, vault: Vault, now_us: NowUs
    ) -> None:
        self._store = store
        self._rows = rows
        self._claims = claims
        self._vault = vault
        self._now_us = now_us

    def view(self, log: Log, run_id: str) -> RunView | None:
        """A run as it stands, without its steps."""
        with self._store.read() as reading:
            run = self._rows.run(reading, log, run_id)
            return None if run is None else self._view(reading, log, run)

    def run(self, log: Log, run_id: str, page: Page) -> StepsPage | Refused:
        """A run and a page of its steps."""
        with self._store.read() as reading:
            run = self._rows.run(reading, log, run_id)
            if run is None:
                return run_not_found(run_id)
            steps, token = self._steps(reading, log, run_id, page)
            return StepsPage(self._view(reading, log, run), tuple(steps), token)

    def runs(self, log: Log, page: Page, *, open_only: bool) -> RunPage:
        """Runs, newest activity first. A run that changes while pages are read may move to one
        that was read before."""
        after = None if page.after is None else (int(page.after[0]), str(page.after[1]))
        with self._store.read() as reading:
            found = self._rows.runs(
                reading, log, open_only=open_only, after=after, limit=page.size + 1
            )
            views = tuple(self._view(reading, log, run) for run in found[: page.size])
        if len(found) <= page.size:
            return RunPage(views, "")
        last = found[page.size - 1]
        return RunPage(views, write_token((last.changed_us, last.run_id)))

    def unknowns(self, log: Log, page: Page, *, run: str) -> UnknownPage:
        """What waits for a decision: writes that double first, then by age."""
        after = None
        if page.after is not None:
            rank, since_us, run_after, step_after = page.after
            after = (int(rank), int(since_us), str(run_after), str(step_after))
        with self._store.read() as reading:
            found = self._rows.unknowns(reading, log, run=run, after=after, limit=page.size + 1)
        unknowns = tuple(unknown for _, unknown in found[: page.size])
        if len(found) <= page.size:
            return UnknownPage(unknowns, "")
        rank, last = found[page.size - 1]
        return UnknownPage(unknowns, write_token((rank, last.since_us, last.run, last.step)))

    def changes(self, log: Log, run_id: str, *, since: int | None) -> StepsPage | Refused | None:
        """The run and the steps touched above run version `since`; None where nothing is newer.

        `since` None: the run as it stands, with the steps that are not settled.
        """
        with self._store.read() as reading:
            run = self._rows.run(reading, log, run_id)
            if run is None:
                return run_not_found(run_id)
            if since is not None and run.version - 1 <= since:
                return None
            steps = self._rows.steps_changed(
                reading, log, run_id, since=-1 if since is None else since
            )
            if since is None:
                steps = [s for s in steps if s.state not in _SETTLED or s.contradiction]
            return StepsPage(self._view(reading, log, run), tuple(steps), "")

    def resume(
        self, log: Log, run_id: str, page: Page, *, token: int, process: str, bytes_max: int
    ) -> ResumePage | Refused:
        """What a new process needs, for the live holder of the run only (rules, section 9).

        Ends a page early where its payloads would pass `bytes_max`, never before its first step.
        """
        with self._store.read() as reading:
            run = self._rows.run(reading, log, run_id)
            if run is None:
                return run_not_found(run_id)
            view = self._view(reading, log, run)
            refused = _not_its_driver(run, token=token, process=process, now_us=view.now_us)
            if refused is not None:
                return refused
            steps, next_token = self._steps(reading, log, run_id, page)
            self._add_predecessors(reading, log, run, steps)
            claims = _Claims(reading, log, self._claims)
            resumed: list[ResumeStep] = []
            taken = 0
            for step in steps:
                one = self._resume_step(reading, log, claims, run, step)
                taken += len(one.arguments.content) + len(one.result.content)
                if resumed and taken > bytes_max:
                    next_token = write_token((resumed[-1].step.ordinal,))
                    break
                resumed.append(one)
            return ResumePage(view, tuple(resumed), next_token)

    def result(self, log: Log, caller: Caller, replay: Replay, *, own_run: bool) -> StoredContent:
        """The stored result that a REPLAY names. What the caller's own run holds is handed out to
        it, whoever settled it; another run's, settled by another principal, needs `read`."""
        if not replay.payload_id:
            return NO_CONTENT
        if own_run:
            with self._store.read() as reading:
                return self.content(reading, log, replay.payload_id)
        if replay.settled_by != caller.principal and Role.READ not in caller.roles:
            return FORBIDDEN_CONTENT
        with self._store.read() as reading:
            return self.content(reading, log, replay.payload_id)

    def content(self, reading: Reading, log: Log, payload_id: str) -> StoredContent:
        """A stored payload as it may be handed out."""
        if not payload_id:
            return NO_CONTENT
        opened = self._vault.open(reading, log, payload_id)
        if isinstance(opened, Gone):
            return StoredContent(Availability.REDACTED, redacted_index=opened.index)
        return StoredContent(Availability.PRESENT, opened.content, opened.media_type)

    def _view(self, reading: Reading, log: Log, run: Run) -> RunView:
        now_us = self._now_us(log, reading.head(log.number))
        return RunView(run, run.stored_counts, now_us)

    def _steps(self, reading: Reading, log: Log, run_id: str, page: Page) -> tuple[list[Step], str]:
        after = -1 if page.after is None else int(page.after[0])
        found = self._rows.steps(reading, log, run_id, after=after, limit=page.size + 1)
        steps = found[: page.size]
        token = write_token((steps[-1].ordinal,)) if len(found) > page.size else ""
        return steps, token

    def _add_predecessors(
        self, reading: Reading, log: Log, run: Run, steps: Sequence[Step]
    ) -> None:
        """Brings in every step, once, where one of the page's is still to be started and waits."""
        for step in steps:
            run.add_step(step)
        if any(before not in run.steps for step in steps for before in step.after):
            for step in self._rows.steps_changed(reading, log, run.run_id, since=-1):
                run.add_step(step)

    def _resume_step(
        self, reading: Reading, log: Log, claims: _Claims, run: Run, step: Step
    ) -> ResumeStep:
        arguments = self.content(reading, log, step.arguments.payload_id)
        result = self.content(reading, log, step.result_id)
        may_start = _may_start(step)
        waits = what_it_waits_for(claims, run, step) if may_start else None
        present = arguments.availability is Availability.PRESENT
        ready = may_start and waits is None and present and not run.cancel_requested
        return ResumeStep(step, arguments, result, ready, waits.step if waits else "")


def _may_start(step: Step) -> bool:
    """Whether a step is in a state from which it may be started (contract, section 4)."""
    match step.state:
        case StepState.PLANNED:
            return True
        case StepState.NO_EFFECT:
            return not step.contradiction
        case StepState.FAILED:
            return not step.is_write
        case StepState.UNKNOWN:
            return step.effect is EffectClass.IDEMPOTENT_WRITE
        case _:
            return False


def _not_its_driver(run: Run, *, token: int, process: str, now_us: int) -> Refused | None:
    """Why the caller may not read what only the live holder may; None if it may."""
    lease = run.lease
    if run.is_closed:
        return run_closed(run)
    unreadable = not_understood(run)
    if unreadable is not None:
        return unreadable
    if token != lease.token:
        return stale_lease(run)
    if process != lease.process:
        return Refused(
            Reason.LEASE_OF_ANOTHER_PROCESS,
            "The lease belongs to another process. Nothing was read. Acquire a lease of your own.",
            run=run.run_id,
        )
    if not lease.is_live(now_us):
        return Refused(
            Reason.LEASE_EXPIRED,
            "The lease has ended. Nothing was read. Acquire a new lease first.",
            run=run.run_id,
            details={"expired_at": format_time(lease.expires_us)},
        )
    return None
