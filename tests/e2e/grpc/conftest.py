"""Servers for these tests."""

from __future__ import annotations

from tests.support.server_fixtures import (
    admin,
    log_size,
    postgres_ledger,
    reviewer,
    run,
    running_server,
    runtime,
    sqlite_server,
    start_server,
)

__all__ = [
    "admin",
    "log_size",
    "postgres_ledger",
    "reviewer",
    "run",
    "running_server",
    "runtime",
    "sqlite_server",
    "start_server",
]
