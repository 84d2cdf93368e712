"""Who this process is to the ledger: a random nonce, made anew after every fork.

A lease and an EXECUTE belong to one process. A forked child that kept its parent's nonce could
repeat the parent's start and be told EXECUTE for an attempt that is already running.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Process:
    """This process: its pid and its nonce (32 hexadecimal characters)."""

    pid: int
    nonce: str


def _fresh() -> Process:
    return Process(pid=os.getpid(), nonce=secrets.token_hex(16))


_current = _fresh()


def _renew() -> None:
    global _current
    _current = _fresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def current() -> Process:
    """The process that calls. The pid is compared each time: a raw clone() runs no fork hooks."""
    if _current.pid != os.getpid():
        _renew()
    return _current
