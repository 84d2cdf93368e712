"""Tenants and their logs: who owns which, and making one.

A log's origin is made once and never changes. A new log has no first entry: it begins at size 0
with the empty root. Beside its log each tenant has an access log, named after it.
"""

from __future__ import annotations

import base64
import hashlib
import os
from threading import Lock
from typing import Final

from ledger.core import ids
from ledger.core.ids import ORIGIN_LENGTH_MAX, Origin, Tenant
from ledger.core.log import Log
from ledger.core.merkle import Frontier
from ledger.store.errors import DuplicateRow
from ledger.store.interface import Changing, Reading, Store
from ledger.store.rows import blob, number, text
from ledger.store.tables import ACCESS_LOGS, HEADS, TENANTS, Row
from ledger.vault import Vault

_TRIES: Final = 3
"""For a log's number, which another process may take at the same moment."""


class UnknownTenant(LookupError):
    """No such tenant in this store."""


class Tenants:
    """The tenants of a store. Safe to use from several threads."""

    def __init__(self, store: Store, vault: Vault) -> None:
        self._store = store
        self._vault = vault
        self._known: dict[Tenant, Log] = {}
        self._known_access: dict[Tenant, Log] = {}
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
        """Makes a tenant with an empty log and an empty access log. Raises `DuplicateRow` if the
        tenant or a log of either name exists."""
        ids.client_id(Tenant, tenant, path="tenant")
        ids.origin(origin, path="origin")
        access = ids.origin(access_origin(origin), path="origin")
        with self._store.change() as changing:
            log_number = _next_number(changing)
            now_us = changing.clock_us()
            secret = self._vault.new_secret(tenant)
            changing.insert(HEADS, [_empty_head(log_number, origin)])
            changing.insert(TENANTS, [(tenant, log_number, secret, now_us)])
            _insert_access(changing, tenant, number=log_number + 1, origin=access)
        return self.log(tenant)

    def access(self, tenant: Tenant) -> Log:
        """The tenant's access log, made where an older release made the tenant without one. Raises
        `UnknownTenant`, `KeyMissing`."""
        known = self._known_access.get(tenant)
        if known is not None:
            return known
        log = self.log(tenant)
        found = self._read_access(log)
        if found is None:
            found = self._new_access(log)
        with self._lock:
            return self._known_access.setdefault(tenant, found)

    def _read_access(self, log: Log) -> Log | None:
        with self._store.read() as reading:
            rows = reading.get(ACCESS_LOGS, [(log.tenant,)])
            if not rows:
                return None
            head = reading.head(number(rows[0][1]))
        return Log(log.tenant, head.log, Origin(head.origin), log.key_index_secret)

    def _new_access(self, log: Log) -> Log:
        """Others may make logs at the same time, this one or another, or have one of its name."""
        named, spare = access_origin(log.origin), _spare_access_origin(log.origin)
        for origin in (*[named] * _TRIES, *[spare] * _TRIES):
            if len(origin) > ORIGIN_LENGTH_MAX:
                continue
            try:
                with self._store.change() as changing:
                    following = _next_number(changing)
                    _insert_access(changing, log.tenant, number=following, origin=origin)
            except DuplicateRow:
                pass
            found = self._read_access(log)
            if found is not None:
                return found
        raise DuplicateRow(f"the names of an access log of {log.origin} are taken")

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


def access_origin(origin: Origin) -> Origin:
    """What the access log of a tenant is called whose log has that name."""
    return Origin(f"{origin}/access")


def _spare_access_origin(origin: Origin) -> Origin:
    """The name where that one is too long, or was given to another tenant's log before."""
    return Origin(f"ledger.local/{hashlib.sha256(origin.encode()).hexdigest()[:32]}/access")


def _next_number(reading: Reading) -> int:
    newest = reading.page(HEADS, equal={}, order=("log",), descending=True, limit=1)
    return number(newest[0][0]) + 1 if newest else 1


def _empty_head(log: int, origin: Origin) -> Row:
    return (log, origin, 0, Frontier().to_bytes(), 0)


def _insert_access(changing: Changing, tenant: Tenant, *, number: int, origin: Origin) -> None:
    changing.insert(HEADS, [_empty_head(number, origin)])
    changing.insert(ACCESS_LOGS, [(tenant, number)])


def random_origin() -> Origin:
    """`ledger.local/` and 26 random characters."""
    random = base64.b32encode(os.urandom(17)).decode("ascii").lower()[:26]
    return Origin(f"ledger.local/{random}")
