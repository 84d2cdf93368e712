"""One PostgreSQL server under the tests' control: start, stop, sudden death, databases."""

from __future__ import annotations

import secrets
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote

from tests.support.postgres.account import ServerAccount, account_owning, server_account
from tests.support.postgres.binaries import PostgresBinaries
from tests.support.postgres.cluster import (
    PostgresDidNotStart,
    free_port,
    is_ready,
    log_tail,
    make_cluster,
    spawn,
    wait_a_moment,
)
from tests.support.postgres.databases import create_database, create_role, drop_database
from tests.support.postgres.folder import ServerFolder, ServerState, claim_new_folder
from tests.support.postgres.processes import kill_cluster

SUPERUSER = "postgres"
ROLE = "ledger_test"

# Durability is left as PostgreSQL ships it: on. Small otherwise, and nothing outside the server's
# folder (dynamic shared memory of a killed server would stay in /dev/shm).
_SETTINGS = {
    "shared_buffers": "64MB",
    "max_connections": "100",
    "dynamic_shared_memory_type": "mmap",
    "listen_addresses": "127.0.0.1",
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
}
_START_SECONDS_MAX = 60.0
_STOP_SECONDS_MAX = 30.0
_PORT_TRIES_MAX = 5
_PORT_TAKEN = "could not create any TCP/IP sockets"


class PostgresServer:
    """A server on `binaries` in `folder`, reachable over a Unix socket there and loopback TCP.

    Without a folder it gets a new one under the temporary folder, and leaving the context removes
    it; a folder that was given stays with its cluster, and a later PostgresServer on it goes on
    where it ended, however that was. Whatever a dead owner left running there is killed first;
    FolderInUse if the owner lives. `settings` are added to, or replace, small durable defaults.
    Nobody gets in without a random password, which is in this process's memory and a 0600 file,
    never in an argument vector. The server dies with this process. Not for use from several threads
    at once."""

    def __init__(
        self,
        folder: Path | None,
        binaries: PostgresBinaries,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._given = folder
        self._binaries = binaries
        self._settings = {**_SETTINGS, **(settings or {})}
        self._folder: ServerFolder | None = None
        self._state: ServerState | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def version_major(self) -> int:
        return self._binaries.version_major

    @property
    def binaries(self) -> PostgresBinaries:
        """The installation it runs from: the given one, or a copy of it in the server's folder."""
        return self._binaries

    @property
    def folder(self) -> Path:
        return self._claimed().path

    @property
    def port(self) -> int:
        return self._known().port

    @property
    def pid(self) -> int | None:
        """The postmaster's pid; None when it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Makes the cluster if there is none, starts the server, and returns once it accepts
        connections.

        Raises PostgresDidNotStart, FolderInUse, FolderUnfit."""
        if self.pid is not None:
            return
        if self._folder is None:
            self._folder = self._claim()
        folder = self._folder
        folder.end_leftovers()
        self._state = folder.read_state()
        if self._state is None:
            self._run_first(folder, self._make_cluster(folder))
        else:
            account = account_owning(folder.cluster)
            self._binaries = self._reachable_binaries(folder, account)
            self._run(folder, self._state)

    def stop(self) -> None:
        """Fast shutdown: sessions are cut, a database checkpoint is written. Killed after 30 s."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """SIGKILL to every process of the server; returns when all are dead. `start` recovers."""
        kill_cluster(self._claimed().cluster, postmaster_pid=self.pid)
        if self._process is not None:
            self._process.kill()  # it may not have become PostgreSQL yet
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Stops the server if it runs, and starts it on the same port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stops the server; removes its folder unless it was given."""
        if self._folder is None:
            return
        if self._given is None:
            self.kill()
            self._folder.remove()
        else:
            self.stop()
            self._folder.release()
        self._process = self._folder = self._state = None

    def dsn(self, database: str, *, over: Literal["socket", "tcp"] = "socket") -> str:
        """A connection URI, password included, for ROLE, which owns the databases and is no
        superuser."""
        return self._uri(ROLE, self._known().password, database, over)

    def superuser_dsn(self, database: str = "postgres") -> str:
        return self._uri(SUPERUSER, self._known().superuser_password, database, "socket")

    def create_database(self, name: str) -> str:
        """Makes an empty database owned by ROLE and returns its dsn."""
        create_database(self.superuser_dsn(), name, owner=ROLE)
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        """Cuts the database's connections and drops it."""
        drop_database(self.superuser_dsn(), name)

    def _claim(self) -> ServerFolder:
        if self._given is None:
            return claim_new_folder(server_account())
        return ServerFolder.claim(self._given)

    def _claimed(self) -> ServerFolder:
        if self._folder is None:
            raise RuntimeError("this server was not started")
        return self._folder

    def _known(self) -> ServerState:
        if self._state is None:
            raise RuntimeError("this server was not started")
        return self._state

    def _uri(self, user: str, password: str, database: str, over: Literal["socket", "tcp"]) -> str:
        login = f"postgresql://{user}:{password}@"
        if over == "tcp":
            return f"{login}127.0.0.1:{self.port}/{quote(database, safe='')}"
        place = quote(str(self._claimed().socket), safe="")
        return f"{login}/{quote(database, safe='')}?host={place}&port={self.port}"

    def _reachable_binaries(self, folder: ServerFolder, account: ServerAccount) -> PostgresBinaries:
        if all(account.reaches(self._binaries.needed_paths())):
            return self._binaries
        return self._binaries.copied_into(folder.install)

    def _make_cluster(self, folder: ServerFolder) -> ServerState:
        account = server_account()
        folder.make_rooms(account)
        state = ServerState(
            free_port(),
            superuser_password=secrets.token_urlsafe(24),
            password=secrets.token_urlsafe(24),
        )
        self._binaries = self._reachable_binaries(folder, account)
        make_cluster(
            folder,
            self._binaries,
            account,
            superuser=SUPERUSER,
            password=state.superuser_password,
        )
        return state

    def _run_first(self, folder: ServerFolder, state: ServerState) -> None:
        for tries_left in reversed(range(_PORT_TRIES_MAX)):
            try:
                self._run(folder, state)
                break
            except PostgresDidNotStart as failure:
                if _PORT_TAKEN not in str(failure) or not tries_left:
                    raise
                state = replace(state, port=free_port())
        self._state = state
        self._make_role(state)
        folder.write_state(state)

    def _make_role(self, state: ServerState) -> None:
        create_role(self.superuser_dsn(), ROLE, password=state.password)

    def _run(self, folder: ServerFolder, state: ServerState) -> None:
        settings = {
            **self._settings,
            "port": str(state.port),
            "unix_socket_directories": str(folder.socket),
        }
        pairs = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = account_owning(folder.cluster).command(
            self._binaries.program("postgres"), "-D", str(folder.cluster), *pairs
        )
        deadline = monotonic() + _START_SECONDS_MAX
        self._process = process = spawn(folder, command)
        while not is_ready(folder.cluster, postmaster_pid=process.pid):
            if not wait_a_moment(process) or monotonic() > deadline:
                self.kill()
                raise PostgresDidNotStart(f"PostgreSQL did not start:\n{log_tail(folder.log)}")
