"""The blocking client."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeVar

from ledger.client import calls, methods, requests, review_requests
from ledger.client.calls import Command, CommandResult, Page
from ledger.client.credentials import TOKEN_ID, Tls, endpoint, find_target
from ledger.client.errors import LedgerUnavailable
from ledger.client.flow import Flow, Settings
from ledger.client.head_memory import HeadMemory
from ledger.client.lease_core import LEASE_S, RunOptions
from ledger.client.payloads import ABSENT, Absent, Content
from ledger.client.run_core import RunCore
from ledger.client.sync_run import Run
from ledger.client.sync_wire import SyncWire
from ledger.client.values import (
    Appended,
    CancelAsked,
    Checkpoint,
    ConsistencyProof,
    DisclosedPayload,
    Entry,
    InclusionProof,
    Receipt,
    Reconciled,
    RunChange,
    RunInfo,
    UnknownStep,
)
from ledger.client.words import EffectClass, LogName, ReadPurpose, Verdict
from ledger.v1 import run_service_pb2 as runs

T = TypeVar("T")


class Ledger:
    """A client of one ledger server. Safe in several threads; usable in a forked child.

    Every call either returns what is durable, or raises a `LedgerError` that says what is safe.
    """

    def __init__(self, wire: SyncWire, settings: Settings) -> None:
        """Use `connect`."""
        self._wire = wire
        # What one server's log was seen to hold says nothing of another's.
        self._settings = replace(settings, head=HeadMemory())

    @classmethod
    def connect(
        cls,
        target: str | None = None,
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        token_id: str = TOKEN_ID,
        tls: Tls | None = None,
        allow_plaintext: bool = False,
        settings: Settings | None = None,
    ) -> Self:
        """A client of the server at `target`; nothing is sent before the first call.

        The target is `target`, else that of `LEDGER_SERVER`, else this machine's port 7420.
        The token is `token`, else that of `token_file`, of `LEDGER_TOKEN_FILE`, or of
        `<data folder>/tokens/<token_id>`, the data folder being `LEDGER_DATA` or `./ledger-data`.
        Without `tls` only this machine is reached, unless `allow_plaintext` is set. Raises
        `CredentialMissing` and `InvalidRequest`.
        """
        settings = settings or Settings()
        where = endpoint(
            find_target(target),
            token=token,
            token_file=token_file,
            token_id=token_id,
            tls=tls,
            allow_plaintext=allow_plaintext,
            message_bytes_max=settings.limits.message_bytes_max,
        )
        return cls(SyncWire(where, settings), settings)

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def run(
        self,
        run: str,
        *,
        holder: str,
        ttl_s: float = LEASE_S,
        wait_s: float = 0.0,
        initiator: str = "",
        ceiling: EffectClass = EffectClass.UNSPECIFIED,
        parent: str = "",
        labels: Mapping[str, str] | None = None,
        subject: str = "",
    ) -> Run:
        """A with block that opens a run, or finds it open with equal content, and drives it.

        Running the same program again after a crash is therefore a resume: the directives say what
        was done. `ttl_s` is the lease's time to live; `wait_s` is how long to wait for another
        holder to go, before `HeldByAnother` is raised.
        """
        request = requests.open_run(
            run,
            initiator=initiator,
            ceiling=ceiling,
            parent=parent,
            labels=labels,
            subject=subject,
            limits=self._settings.limits,
        )
        return self._driven(RunOptions(run, holder, ttl_s, wait_s, request))

    def resume(self, run: str, *, holder: str, ttl_s: float = LEASE_S, wait_s: float = 0.0) -> Run:
        """A with block that drives a run which exists; `resumed` and `ready_steps()` say what to
        do.
        """
        return self._driven(RunOptions(run, holder, ttl_s, wait_s, None))

    def submit(self, commands: Sequence[Command]) -> list[CommandResult]:
        """Many commands in one message, built by `ledger.client.requests`; one result for each,
        in order.

        An error of one command is its result and undoes nothing. Whoever runs a tool on the
        strength of an EXECUTE in a result counts its `remaining_s` from before this call.
        """
        return self._wire.drive(calls.submit(self._settings, commands))

    def get_run(self, run: str) -> RunChange:
        """A run with all its steps, without payloads."""
        return self._wire.drive(calls.get_run(self._settings, run))

    def runs(self, *, open_only: bool = False) -> Iterator[RunInfo]:
        """Runs, newest activity first."""
        return self._pages(
            lambda cursor: calls.list_runs(self._settings, open_only=open_only, cursor=cursor)
        )

    def watch(self, run: str, *, after_version: int = 0) -> Iterator[RunChange]:
        """A run's state now and after every change, until the stream is given up.

        A stream that breaks is asked for again from the last version seen, so a server may be
        restarted meanwhile; `LedgerUnavailable` is raised where none answers within the retry
        policy's deadline.
        """
        heard_s = self._settings.clock()
        while True:
            request = runs.WatchRunRequest(run=run, after_version=after_version)
            try:
                for answer in self._wire.stream(methods.WATCH_RUN, request):
                    change = calls.run_change_of(answer)
                    after_version, heard_s = change.run.version, self._settings.clock()
                    yield change
            except LedgerUnavailable as lost:
                self._wire.drive(calls.before_watching_on(self._settings, lost, since_s=heard_s))

    def request_cancel(self, run: str, *, reason: str = "") -> CancelAsked:
        """Ask a run to stop: nothing more may start in it."""
        return self._wire.drive(calls.request_cancel(self._settings, run, reason=reason))

    def break_lease(self, run: str, *, reason: str) -> Appended:
        """Take a run's lease from its holder (admin). Started writes become UNKNOWN at once."""
        return self._wire.drive(calls.break_lease(self._settings, run, reason=reason))

    def unknowns(self, *, run: str = "") -> Iterator[UnknownStep]:
        """Unsettled steps: writes that double first, then by age. An outage raises; it is never
        empty.
        """
        return self._pages(lambda cursor: calls.unknowns(self._settings, run=run, cursor=cursor))

    def reconcile(
        self,
        unknown: UnknownStep,
        verdict: Verdict,
        *,
        reason_code: str,
        reason: str = "",
        evidence: Sequence[Content] = (),
        result: Content | Absent = ABSENT,
        supersedes_index: int | None = None,
        proposal_index: int | None = None,
    ) -> Reconciled:
        """Settle an unknown step by a decision. Whoever drove the run may not.

        `supersedes_index` is the index of the decision that this one replaces, `proposal_index`
        that of the proposal it confirms, where two people decide.
        """
        request = review_requests.reconcile(
            run=unknown.run,
            step=unknown.step,
            verdict=verdict,
            expected_version=unknown.expected_version,
            reason_code=reason_code,
            reason=reason,
            evidence=evidence,
            result=result,
            supersedes_index=supersedes_index,
            proposal_index=proposal_index,
            limits=self._settings.limits,
        )
        return self._wire.drive(calls.reconcile(self._settings, request))

    def propose(
        self,
        unknown: UnknownStep,
        verdict: Verdict,
        *,
        reason_code: str,
        reason: str = "",
        evidence: Sequence[Content] = (),
        result: Content | Absent = ABSENT,
        supersedes_index: int | None = None,
    ) -> Appended:
        """Where two people decide: say first what a second person then confirms by `reconcile` with
        the `proposal_index` that this answer's append has. Changes no state.
        """
        request = review_requests.propose_decision(
            run=unknown.run,
            step=unknown.step,
            verdict=verdict,
            expected_version=unknown.expected_version,
            reason_code=reason_code,
            reason=reason,
            evidence=evidence,
            result=result,
            supersedes_index=supersedes_index,
            limits=self._settings.limits,
        )
        return self._wire.drive(calls.propose_decision(self._settings, request))

    def allow_downgrade(
        self, *, tool: str, tool_version: str, effect_class: EffectClass, reason: str
    ) -> Appended:
        """Permit a weaker class for a tool's version (admin)."""
        request = review_requests.allow_downgrade(
            tool=tool,
            tool_version=tool_version,
            effect_class=effect_class,
            reason=reason,
            limits=self._settings.limits,
        )
        return self._wire.drive(calls.allow_downgrade(self._settings, request))

    def checkpoint(self, *, log: LogName = LogName.UNSPECIFIED) -> Checkpoint:
        """A signed checkpoint that includes everything acknowledged before this call."""
        return self._wire.drive(calls.checkpoint(self._settings, log=log))

    def entries(
        self,
        *,
        start: int = 0,
        log: LogName = LogName.UNSPECIFIED,
        purpose: ReadPurpose = ReadPurpose.UNSPECIFIED,
    ) -> Iterator[Entry]:
        """Entries from an index up to the log's present head, in order, without gaps.

        Reading the access log needs the role `audit` and is recorded in it; an export or a
        verification of either log is recorded there too, where `purpose` says that it is one.
        """
        first = str(start)
        return self._pages(
            lambda cursor: calls.entries(
                self._settings,
                cursor=cursor,
                log=log,
                # Once is enough: each page that says so would be recorded.
                purpose=purpose if cursor == first else ReadPurpose.UNSPECIFIED,
            ),
            first,
        )

    def follow(
        self,
        *,
        start: int = 0,
        until_head: bool = False,
        log: LogName = LogName.UNSPECIFIED,
        purpose: ReadPurpose = ReadPurpose.UNSPECIFIED,
    ) -> Iterator[Entry]:
        """Entries from an index on, as they are appended. After an error go on at the next
        index.
        """
        request = calls.follow_request(start=start, until_head=until_head, log=log, purpose=purpose)
        for answer in self._wire.stream(methods.FOLLOW_ENTRIES, request):
            yield from calls.entries_of(answer.entries)

    def run_entries(self, run: str, *, start_version: int = 0) -> Iterator[Entry]:
        """A run's entries by version."""
        return self._pages(
            lambda cursor: calls.run_entries(self._settings, run, cursor=cursor),
            str(start_version),
        )

    def receipt(
        self,
        index: int | None = None,
        *,
        request_id: str | None = None,
        log: LogName = LogName.UNSPECIFIED,
    ) -> Receipt:
        """A receipt by entry index, or by the own request id that appended it."""
        return self._wire.drive(
            calls.receipt(self._settings, index=index, request_id=request_id, log=log)
        )

    def inclusion_proof(
        self, index: int, *, tree_size: int = 0, log: LogName = LogName.UNSPECIFIED
    ) -> InclusionProof:
        """An inclusion proof; tree size 0 means the present one."""
        return self._wire.drive(
            calls.inclusion_proof(self._settings, index, tree_size=tree_size, log=log)
        )

    def consistency_proof(
        self, old_size: int, *, new_size: int = 0, log: LogName = LogName.UNSPECIFIED
    ) -> ConsistencyProof:
        """A consistency proof; new size 0 means the present one."""
        return self._wire.drive(
            calls.consistency_proof(self._settings, old_size, new_size=new_size, log=log)
        )

    def payload(self, index: int, *, payload_id: str) -> DisclosedPayload:
        """A payload with the salt of its commitment. The read is recorded."""
        return self._wire.drive(calls.payload(self._settings, index, payload_id=payload_id))

    def _driven(self, options: RunOptions) -> Run:
        return Run(self._wire, RunCore(self._settings, options))

    def _pages(self, page: Callable[[str], Flow[Page[T]]], cursor: str = "") -> Iterator[T]:
        while True:
            answer = self._wire.drive(page(cursor))
            yield from answer.items
            cursor = answer.cursor
            if not cursor:
                return
