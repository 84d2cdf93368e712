"""Opens the store that an address names."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from ledger.store.interface import Store
from ledger.store.settings import StoreSettings
from ledger.store.sqlite import SqliteStore


def open_store(url: str, settings: StoreSettings | None = None) -> Store:
    """`sqlite:///folder/ledger.db` (an absolute path; `sqlite:ledger.db` is a relative one) or
    `postgresql://...` as libpq reads it, with the extra `postgres`.

    Migrates and checks nothing. Raises ValueError for another address, without showing it: it may
    hold a password; `StoreUnavailable` or `NotDurable` where the file cannot be kept as promised.
    """
    scheme, _, _ = url.partition(":")
    match scheme:
        case "sqlite":
            return SqliteStore(_path(url), settings)
        case "postgresql" | "postgres":
            from ledger.store.postgres import PostgresStore

            return PostgresStore(url, settings)
        case _:
            raise ValueError("a store's address begins with sqlite: or postgresql:")


def _path(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc or parts.query or parts.fragment or not parts.path.strip("/"):
        raise ValueError("an SQLite address is sqlite: and the path of a file")
    return Path(unquote(parts.path))
