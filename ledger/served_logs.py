"""The logs that this server serves: each begun before its first append, or refused with a reason.

A log whose history was rewound is read on but neither signed nor appended to, until an operator
pins a checkpoint or continues under a new origin (formats, section 3). The others are not touched
by it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from ledger.core.ids import Origin, Tenant
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
        self._begun_access: dict[Tenant, Log] = {}
        self._access: set[Origin] = set()
        self._refused: dict[Origin, tuple[Log, str]] = {}
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

    def access(self, tenant: Tenant) -> Log:
        """The tenant's access log, begun. Blocks and raises as `log` does."""
        begun = self._begun_access.get(tenant)
        if begun is not None:
            return begun
        log = self._tenants.access(tenant)
        with self._lock:
            self._access.add(log.origin)
            if tenant not in self._begun_access:
                self._begin(log)
                self._begun_access[tenant] = log
        return log

    def all(self) -> list[Log]:
        """Every tenant's log and access log, begun."""
        tenants = [log.tenant for log in self._tenants.all()]
        return [of(tenant) for tenant in tenants for of in (self.log, self.access)]

    def is_access(self, log: Log) -> bool:
        """Whether it is a tenant's access log."""
        return log.origin in self._access

    def refused(self) -> dict[Tenant, str]:
        """The tenants whose log takes no appends, and why. An access log that takes none keeps
        nobody from appending."""
        logs = list(self._refused.values())
        return {log.tenant: why for log, why in logs if not self.is_access(log)}

    def meet(self, log: Log, why: NotSigning) -> None:
        """A log's head may not be signed. Where its history was rewound, appends end with it."""
        if isinstance(why, (HistoryRewound, MarkBroken)) and log.origin not in self._refused:
            self._refused[log.origin] = (log, str(why))
            self._refuse(log, why)

    def _begin(self, log: Log) -> None:
        try:
            self._checkpoints.begin(log)
        except NotSigning as why:
            self.meet(log, why)
