"""What has to be done as the server's account. Runs as a script of its own, never imported.

    launch.py UID GID OWNER_PID exec PROGRAM [ARGUMENT...]     becomes PROGRAM
    launch.py UID GID OWNER_PID access PATH...                 one line of 0 or 1 per path
    launch.py UID GID OWNER_PID pids CLUSTER                   one line per process of that cluster
    launch.py UID GID OWNER_PID remove-memory CLUSTER          removes what a killed postmaster left

A fresh single-threaded process gives up root here, because doing so between fork and exec of the
test process would run Python code in a fork of a process full of gRPC threads. Looking at processes
and shared memory takes the account too: root in a container (no CAP_SYS_PTRACE, no CAP_SYS_ADMIN)
may not do it for another uid. Standard library only, and everything is imported before the drop:
afterwards the interpreter's own folder may be out of reach.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_CLONE_NEWUSER = 0x10000000
_NOBODY = 65534
_IPC_RMID = 0
_SHMID_PLACE = 6  # line of postmaster.pid with the segment's key and id, from 0


def _prctl(libc: ctypes.CDLL, option: int, argument: int) -> None:
    if libc.prctl(option, argument, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def _become(uid: int, gid: int) -> None:
    if os.geteuid() == 0 and uid != 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _borrow_a_name(libc: ctypes.CDLL) -> None:
    """initdb refuses a uid without an account name and offers no option around it; in a user
    namespace of its own the same uid goes by a named one. The files it writes still belong to the
    real uid."""
    uid, gid = os.geteuid(), os.getegid()
    named = _NOBODY if _has_name(_NOBODY) else next(p.pw_uid for p in pwd.getpwall() if p.pw_uid)
    # setuid cleared it, and without it /proc/self/uid_map belongs to root.
    _prctl(libc, _PR_SET_DUMPABLE, 1)
    if libc.unshare(_CLONE_NEWUSER) != 0:
        error = os.strerror(ctypes.get_errno())
        sys.exit(
            f"uid {uid} has no account name, which initdb needs, and a user namespace is refused "
            f"({error}); run as a named user or set LEDGER_TEST_POSTGRES_DSN"
        )
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{named} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="utf-8") as file:
            file.write(line)


def _exec(libc: ctypes.CDLL, operands: list[str], owner_pid: int) -> None:
    if os.path.basename(operands[0]) == "initdb" and not _has_name(os.geteuid()):
        _borrow_a_name(libc)
    # Last, because every change of credentials clears it. SIGQUIT is PostgreSQL's immediate
    # shutdown.
    _prctl(libc, _PR_SET_PDEATHSIG, signal.SIGQUIT)
    if os.getppid() != owner_pid:
        sys.exit("the owner died before the program started")
    os.umask(0o077)
    os.execv(operands[0], operands)


def _is_of_cluster(pid: int, cluster: str) -> bool:
    """Its program is called postgres and its working folder *is* the cluster (same device and
    inode)."""
    try:
        if not os.path.samefile(f"/proc/{pid}/cwd", cluster):
            return False
        # The kernel marks a program file that was removed while it ran.
        program = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False  # gone, a zombie, a kernel thread, or of another account
    return os.path.basename(program) == "postgres"


def _remove_memory(libc: ctypes.CDLL, cluster: str) -> None:
    """Only a segment with the key, id and creator that postmaster.pid names, and nobody attached to
    it."""
    try:
        with open(os.path.join(cluster, "postmaster.pid"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        key, segment_id = (int(word) for word in lines[_SHMID_PLACE].split())
    except (FileNotFoundError, IndexError):
        return
    with open("/proc/sysvipc/shm", encoding="utf-8") as file:
        segments = [[int(word) for word in line.split()] for line in file.read().splitlines()[1:]]
    for found_key, found_id, _, _, creator_pid, _, attached, *_ in segments:
        if found_id != segment_id or (found_key ^ key) & 0xFFFFFFFF:
            continue
        if creator_pid == int(lines[0]) and attached == 0:
            libc.shmctl(segment_id, _IPC_RMID, None)


def main(arguments: list[str]) -> None:
    uid, gid, owner_pid = (int(text) for text in arguments[:3])
    verb, operands = arguments[3], arguments[4:]
    libc = ctypes.CDLL(None, use_errno=True)
    _become(uid, gid)
    match verb:
        case "exec":
            _exec(libc, operands, owner_pid)
        case "access":
            for path in operands:
                print(int(os.access(path, os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK)))
        case "pids":
            for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
                if _is_of_cluster(pid, operands[0]):
                    print(pid)
        case "remove-memory":
            _remove_memory(libc, operands[0])
        case _:
            sys.exit(f"unknown verb {verb}")


if __name__ == "__main__":
    main(sys.argv[1:])
