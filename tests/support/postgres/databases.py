"""Databases and the role on a running server, whoever runs it."""

from __future__ import annotations

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo


class ReachablePostgres:
    """A server that somebody else runs; `dsn` reaches any database of it, as a role that may make
    more."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def dsn(self, database: str) -> str:
        return make_conninfo(self._dsn, dbname=database)

    def create_database(self, name: str) -> str:
        """Makes an empty database owned by the dsn's role and returns its dsn."""
        create_database(self._dsn, name)
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        """Cuts the database's connections and drops it."""
        drop_database(self._dsn, name)


def create_database(dsn: str, name: str, *, owner: str | None = None) -> None:
    """Makes an empty database over a connection to another database of the same server."""
    # template0: nobody can be connected to it, which would make the copy fail.
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name))
    if owner is not None:
        statement += sql.SQL(" OWNER {}").format(sql.Identifier(owner))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)


def drop_database(dsn: str, name: str) -> None:
    """Cuts the database's connections and drops it, if it is there."""
    statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)


def create_role(dsn: str, name: str, *, password: str) -> None:
    """Makes a role that may log in and nothing more; the server sees only the password's
    verifier."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        verifier = connection.pgconn.encrypt_password(password.encode(), name.encode())
        connection.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                sql.Identifier(name), sql.Literal(verifier.decode())
            )
        )
