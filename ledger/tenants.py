"""Tenants and their logs: who owns which, and making one.

A log's origin is made once and never changes. A new log has no first entry: it begins at size 0
with the empty root.
"""

from __future__ import annotations

import base64
import os
from threading import Lock

from ledger.core import ids
from ledger.core.ids import Origin, Tenant
from ledger.core.log import Log
from ledger.core.merkle import Frontier
from ledger.store.errors import DuplicateRow
from ledger.store.interface import Reading, Store
from ledger.store.rows import blob, number, text
from ledger.store.tables import HEADS, TENANTS
from ledger.vault import Vault


class UnknownTenant(LookupError):
    """No such tenant in this store."""


class Tenants:
    """The tenants of a store. Safe to use from several threads."""

    def __init__(self, store: Store, vault: Vault) -> None:
        self._store = store
        self._vault = vault
        self._known: dict[Tenant, Log] = {}
        self._lock = Lock()

    def log(self, tenant: Tenant) -> Log:
        """The tenant's log. Raises `UnknownTenant`, `KeyMissing`."""
        known = self._known.get(tenant)
        if known is not None:
            return known
        with self._store.read() as reading:
            log = self._read(reading, tenant)
        if log is None:
            raise UnknownTenant(
                f"There is no tenant {tenant} in this store. Nothing was changed. Make it with "
                "`ledger tenants new`."
            )
        with self._lock:
            return self._known.setdefault(tenant, log)

    def all(self) -> list[Log]:
        """Every tenant's log, by tenant. One page of at most 10,000."""
        with self._store.read() as reading:
            rows = reading.page(TENANTS, equal={}, order=("tenant",), limit=10_000)
        return [self.log(Tenant(text(row[0]))) for row in rows]

    def new(self, tenant: Tenant, origin: Origin) -> Log:
        """Makes a tenant with an empty log. Raises `DuplicateRow` if either exists."""
        ids.client_id(Tenant, tenant, path="tenant")
        ids.origin(origin, path="origin")
        with self._store.change() as changing:
            newest = changing.page(HEADS, equal={}, order=("log",), descending=True, limit=1)
            log_number = number(newest[0][0]) + 1 if newest else 1
            now_us = changing.clock_us()
            secret = self._vault.new_secret(tenant)
            frontier = Frontier().to_bytes()
            changing.insert(HEADS, [(log_number, origin, 0, frontier, 0)])
            changing.insert(TENANTS, [(tenant, log_number, secret, now_us)])
        return self.log(tenant)

    def ensure(self, tenant: Tenant) -> Log:
        """The tenant's log, made under a random origin if there is none yet (contract, §12)."""
        try:
            return self.log(tenant)
        except UnknownTenant:
            try:
                return self.new(tenant, random_origin())
            except DuplicateRow:
                return self.log(tenant)  # another process made it first

    def _read(self, reading: Reading, tenant: Tenant) -> Log | None:
        rows = reading.get(TENANTS, [(tenant,)])
        if not rows:
            return None
        log_number = number(rows[0][1])
        head = reading.head(log_number)
        secret = self._vault.open_secret(tenant, blob(rows[0][2]))
        return Log(tenant, log_number, Origin(head.origin), secret)


def random_origin() -> Origin:
    """`ledger.local/` and 26 random characters."""
    random = base64.b32encode(os.urandom(17)).decode("ascii").lower()[:26]
    return Origin(f"ledger.local/{random}")
