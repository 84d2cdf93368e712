"""Counts the best-effort records that were dropped, until the ledger has acknowledged the count."""

from __future__ import annotations

import threading

from ledger.client import requests
from ledger.v1 import run_service_pb2 as runs


class Gaps:
    """Dropped records of one run. Safe to use from several threads.

    A count that was sent keeps its request, and so its request id, until it is acknowledged: a lost
    answer neither loses the count nor reports it twice.
    """

    __slots__ = ("_dropped", "_guard", "_report")

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._dropped = 0
        self._report: runs.AttachEvidenceRequest | None = None

    @property
    def unreported(self) -> int:
        """How many dropped records the ledger has not acknowledged yet."""
        with self._guard:
            return self._dropped + (self._report.dropped if self._report is not None else 0)

    def drop(self, records: int) -> None:
        """Count records that were not made."""
        with self._guard:
            self._dropped += records

    def report(self, *, run: str, token: int) -> runs.AttachEvidenceRequest | None:
        """The evidence to send next, or None where nothing is missing."""
        with self._guard:
            if self._report is None and self._dropped:
                self._report = requests.attach_evidence(
                    run, kind="gap", token=token, dropped=self._dropped
                )
                self._dropped = 0
            return self._report

    def acknowledged(self, report: runs.AttachEvidenceRequest) -> None:
        """The ledger holds this count now."""
        with self._guard:
            if self._report is report:
                self._report = None
