"""The logs that this server serves: each begun before its first append, or refused with a reason.

A log whose history was rewound is read on but neither signed nor appended to, until an operator
pins a checkpoint or continues under a new origin (formats, section 3). The others are not touched
by it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from ledger.core.ids import Tenant
from ledger.core.log import Log
from ledger.log_reading import NotSigning
from ledger.marks import MarkBroken
from ledger.signing import Checkpoints, HistoryRewound
from ledger.tenants import Tenants

Refuse = Callable[[Log, NotSigning], None]
"""Told, from any thread, once for each log that takes no appends from now on, and why."""


class ServedLogs:
    """Tenants' logs as the services ask for them. Safe to use from several threads."""

    def __init__(self, tenants: Tenants, checkpoints: Checkpoints, refuse: Refuse) -> None:
        self._tenants = tenants
        self._checkpoints = checkpoints
        self._refuse = refuse
        self._begun: dict[Tenant, Log] = {}
        self._refused: dict[Tenant, str] = {}
        self._lock = Lock()

    def log(self, tenant: Tenant) -> Log:
        """The tenant's log, begun. Blocks at its first call. Raises `UnknownTenant`, `KeyMissing`,
        and what the store raises."""
        begun = self._begun.get(tenant)
        if begun is not None:
            return begun
        log = self._tenants.log(tenant)
        with self._lock:
            if tenant not in self._begun:
                self._begin(log)
                self._begun[tenant] = log
        return log

    def all(self) -> list[Log]:
        """Every tenant's log, begun."""
        return [self.log(log.tenant) for log in self._tenants.all()]

    def refused(self) -> dict[Tenant, str]:
        """The logs that take no appends, and why."""
        return dict(self._refused)

    def meet(self, log: Log, why: NotSigning) -> None:
        """A log's head may not be signed. Where its history was rewound, appends end with it."""
        if isinstance(why, (HistoryRewound, MarkBroken)) and log.tenant not in self._refused:
            self._refused[log.tenant] = str(why)
            self._refuse(log, why)

    def _begin(self, log: Log) -> None:
        try:
            self._checkpoints.begin(log)
        except NotSigning as why:
            self.meet(log, why)
