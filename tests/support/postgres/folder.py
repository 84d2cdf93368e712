"""The folder of one server: who owns it, what a later run may know about it, and its removal.

    <folder>/         the caller's; 0700, or 0711 where root runs the server under another account
      owner.lock      flock held by the owning process for as long as it lives
      state.json      0600: port and passwords; written once the cluster is complete
      cluster/        0700, the server account's
      socket/         0700, the server account's
      install/        a copy of the programs, if the originals are out of the account's reach
      server.log

Ownership is a file lock, not a recorded pid: the kernel drops it at any death of the owner, no
later process can be taken for the owner, and it holds across containers that share the folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.postgres.account import ServerAccount, account_owning
from tests.support.postgres.processes import kill_cluster

_LOCK = "owner.lock"

# sun_path holds 107 bytes and a NUL; the longest name PostgreSQL puts in is /.s.PGSQL.65535.lock.
_SOCKET_FOLDER_BYTES_MAX = 107 - len("/.s.PGSQL.65535.lock")


class FolderInUse(Exception):
    """A living process owns the folder."""


class FolderUnfit(Exception):
    """The folder cannot hold a server; the message says why."""


@dataclass(frozen=True, slots=True)
class ServerState:
    port: int
    superuser_password: str
    password: str


class ServerFolder:
    """A claimed folder. The claim ends with `release`, `remove` or this process."""

    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path = path
        self.cluster = path / "cluster"
        self.socket = path / "socket"
        self.install = path / "install"
        self.log = path / "server.log"
        self._state = path / "state.json"
        self._lock = path / _LOCK
        self._lock_fd: int | None = lock_fd

    @classmethod
    def claim(cls, path: Path) -> ServerFolder:
        """Makes the folder if it is missing. Raises FolderInUse or FolderUnfit."""
        path = path.absolute()
        if len(os.fsencode(path / "socket")) > _SOCKET_FOLDER_BYTES_MAX:
            raise FolderUnfit(f"{path} is too long for a Unix socket below it")
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        try:
            return cls.claim_existing(path)
        except FileNotFoundError:
            raise FolderInUse(f"{path} is being removed") from None

    @classmethod
    def claim_existing(cls, path: Path) -> ServerFolder:
        """As `claim`; raises FileNotFoundError if the folder is missing."""
        _check_is_ours(path)
        lock_fd = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_current = os.path.samestat(os.fstat(lock_fd), os.stat(path / _LOCK))
        except (BlockingIOError, FileNotFoundError):
            is_current = False
        if not is_current:
            os.close(lock_fd)
            raise FolderInUse(f"{path} belongs to a living process")
        return cls(path, lock_fd)

    @property
    def claimed(self) -> bool:
        return self._lock_fd is not None

    def read_state(self) -> ServerState | None:
        """None if no cluster was completed here."""
        try:
            return ServerState(**json.loads(self._state.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    def write_state(self, state: ServerState) -> None:
        written = self._state.with_suffix(".new")
        written.unlink(missing_ok=True)
        with open(
            os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        ) as file:
            json.dump(asdict(state), file)
        os.replace(written, self._state)

    def make_rooms(self, account: ServerAccount) -> None:
        """Empties and makes the rooms for a new cluster. Raises FolderUnfit if the account cannot
        get in."""
        if account.drops:
            os.chmod(self.path, 0o711)
        for room in (self.cluster, self.socket, self.install):
            shutil.rmtree(room, ignore_errors=True)
        for room in (self.cluster, self.socket):
            room.mkdir(mode=0o700)
            account.give(room)
        if not all(account.reaches([self.cluster, self.socket])):
            raise FolderUnfit(f"uid {account.uid}, which runs the server, cannot reach {self.path}")

    def end_leftovers(self) -> None:
        """Kills what a dead owner left running on this cluster, and tidies up after its postmaster.

        The latter because the dead postmaster's pid may still be taken, by a zombie that nobody
        reaps or by a stranger; PostgreSQL would refuse to start then. That no process of the
        cluster lives is known here from the processes themselves."""
        kill_cluster(self.cluster)
        postmaster_file = self.cluster / "postmaster.pid"
        if postmaster_file.exists():
            account_owning(self.cluster).ask("remove-memory", str(self.cluster))
            postmaster_file.unlink()

    def remove(self) -> None:
        """Ends what runs here, removes the folder and its shared memory, and gives up the claim.

        The lock file goes last: without it a sweep could claim the folder in the middle."""
        self.end_leftovers()
        for path in self.path.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path != self._lock:
                path.unlink()
        self._lock.unlink()
        with suppress(OSError):  # not empty: a sweep has just claimed it, and removes it
            self.path.rmdir()
        self.release()

    def release(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None


def claim_new_folder(account: ServerAccount) -> ServerFolder:
    """A claimed new folder with a short name in this user's base folder, which is swept first."""
    base = base_folder(account)
    sweep(base)
    with _alone_in(base):
        return ServerFolder.claim(base / secrets.token_hex(4))


def base_folder(account: ServerAccount) -> Path:
    """`ledger-test-postgres-<uid>` in the first temporary folder that the account can enter.

    Only folders that PostgresServer makes belong in it: those without an owner are removed."""
    candidates = list(dict.fromkeys(map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp"))))
    for candidate, is_reached in zip(candidates, account.reaches(candidates), strict=True):
        base = candidate / f"ledger-test-postgres-{os.geteuid()}"
        longest = base / "01234567" / "socket"
        if not is_reached or len(os.fsencode(longest)) > _SOCKET_FOLDER_BYTES_MAX:
            continue
        base.mkdir(mode=0o700, exist_ok=True)
        _check_is_ours(base)
        if account.drops:
            os.chmod(base, 0o711)
        return base
    raise FolderUnfit(f"none of {candidates} is short enough and open to uid {account.uid}")


def sweep(base: Path) -> list[Path]:
    """Ends the servers and removes the folders in `base` whose owners are dead; returns those."""
    removed = []
    with _alone_in(base):
        for path in sorted(base.iterdir()):
            if path.is_symlink() or not path.is_dir():
                continue
            try:
                folder = ServerFolder.claim_existing(path)
            except (FolderInUse, FileNotFoundError):
                continue
            folder.remove()
            removed.append(path)
    return removed


@contextmanager
def _alone_in(base: Path) -> Iterator[None]:
    """Keeps a sweep from meeting a folder that is made but not yet claimed."""
    lock_fd = os.open(base / "sweep.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock_fd)


def _check_is_ours(path: Path) -> None:
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise FolderUnfit(f"{path} is not a folder that only uid {os.geteuid()} can write to")
