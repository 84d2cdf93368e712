"""Ends the processes of one cluster, and nothing else.

A process is the cluster's own exactly if its program is called `postgres` and its working folder
*is* the cluster folder (launch.py looks, as the account that owns the folder; every PostgreSQL
process stays there from its first moment). That proof needs no recorded pid or start time, so it
holds however the last owner died and whatever became of its pids since. It is made again while a
pidfd is held, and signals go through that pidfd: a pid that was reused meanwhile is never hit.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.postgres.account import account_owning

_KILL_SECONDS_MAX = 30.0


class ProcessesOutlived(Exception):
    """Processes of a cluster did not end in time."""


def cluster_pids(cluster: Path) -> set[int]:
    """The pids of the living processes of `cluster`; none where there is no cluster."""
    if not cluster.is_dir():
        return set()
    return {int(line) for line in account_owning(cluster).ask("pids", str(cluster))}


def kill_cluster(cluster: Path, *, postmaster_pid: int | None = None) -> None:
    """SIGKILL to every process of `cluster`; returns when all have ended.

    The postmaster is stopped first and killed last, so that it neither starts nor tidies anything
    while its children die: what is on disk is what a sudden death leaves. Raises ProcessesOutlived
    after 30 s."""
    while True:
        with _held(cluster) as pidfds:
            if not pidfds:
                return
            if postmaster_pid in pidfds:
                _send(pidfds[postmaster_pid], signal.SIGSTOP)
                _kill_all([fd for pid, fd in pidfds.items() if pid != postmaster_pid], cluster)
            _kill_all(pidfds.values(), cluster)


@contextmanager
def _held(cluster: Path) -> Iterator[dict[int, int]]:
    """pid -> pidfd of the living processes of `cluster`."""
    with ExitStack() as opened:
        pidfds: dict[int, int] = {}
        for pid in cluster_pids(cluster):
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            opened.callback(os.close, pidfd)
            pidfds[pid] = pidfd
        confirmed = cluster_pids(cluster) if pidfds else set()
        yield {pid: pidfd for pid, pidfd in pidfds.items() if pid in confirmed}


def _kill_all(pidfds: Iterable[int], cluster: Path) -> None:
    pidfds = list(pidfds)
    for pidfd in pidfds:
        _send(pidfd, signal.SIGKILL)
    if not all(_has_ended(pidfd, _KILL_SECONDS_MAX) for pidfd in pidfds):
        raise ProcessesOutlived(f"a process of {cluster} outlived SIGKILL")


def _send(pidfd: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return


def _has_ended(pidfd: int, seconds_max: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds_max * 1000))
