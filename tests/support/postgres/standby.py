"""A standby of a running server: a copy that follows it, can be made to lag, and be promoted."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Final

import psycopg

from tests.support.postgres.account import server_account
from tests.support.postgres.cluster import PostgresDidNotStart, free_port, log_tail, spawn
from tests.support.postgres.folder import ServerFolder, ServerState
from tests.support.postgres.server import SUPERUSER, PostgresServer

_WAIT_S: Final = 30.0


class StandbyServer(PostgresServer):
    """An asynchronous streaming standby of `primary`, which must run; made by pg_basebackup.

    It has the primary's accounts and passwords. Leaving the context removes it."""

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__(None, primary.binaries)
        self._primary = primary

    def catch_up(self) -> None:
        """Waits until it has replayed all that the primary has written."""
        with psycopg.connect(self._primary.superuser_dsn(), autocommit=True) as raw:
            (written,) = raw.execute("SELECT pg_current_wal_lsn()").fetchone() or ("",)
        self._wait_for(f"SELECT pg_last_wal_replay_lsn() >= '{written}'")

    def stop_following(self) -> None:
        """It gets nothing more of what the primary writes; the primary does not wait for it."""
        with psycopg.connect(self.superuser_dsn(), autocommit=True) as raw:
            raw.execute("ALTER SYSTEM SET primary_conninfo = ''")
            raw.execute("SELECT pg_reload_conf()")
        self._wait_for("SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)")

    def promote(self) -> None:
        """It takes writes from now on."""
        with psycopg.connect(self.superuser_dsn(), autocommit=True) as raw:
            assert raw.execute("SELECT pg_promote()").fetchone() == (True,)

    def _wait_for(self, query: str) -> None:
        deadline = monotonic() + _WAIT_S
        with psycopg.connect(self.superuser_dsn(), autocommit=True) as raw:
            while raw.execute(query.encode()).fetchone() != (True,):
                assert monotonic() < deadline, query
                sleep(0.02)  # pause: between looks at the standby

    def _make_cluster(self, folder: ServerFolder) -> ServerState:
        account = server_account()
        folder.make_rooms(account)
        known = self._primary._known()
        state = ServerState(
            free_port(), superuser_password=known.superuser_password, password=known.password
        )
        self._binaries = self._reachable_binaries(folder, account)
        socket = self._primary.folder / "socket"
        passwords = folder.path / "passwords"
        passwords.write_text(f"*:*:*:{SUPERUSER}:{known.superuser_password}\n", encoding="ascii")
        passwords.chmod(0o600)
        account.give(passwords)
        place = f"host={socket} port={known.port} user={SUPERUSER} passfile={passwords}"
        command = account.command(
            self._binaries.program("pg_basebackup"),
            *("-D", str(folder.cluster), "-d", place, "-R", "-X", "stream"),
            *("--checkpoint=fast", "--no-sync"),
        )
        if spawn(folder, command).wait() != 0:
            raise PostgresDidNotStart(f"pg_basebackup failed:\n{log_tail(folder.log)}")
        return state

    def _make_role(self, state: ServerState) -> None:
        """It came with the copy."""
