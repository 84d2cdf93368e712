"""Renewing a lease: no entry and no head lock, yet exact (contract, section 6).

One conditional update decides. It and an append that finds the lease past meet on the lease's row:
whoever locks it second sees what the first did.
"""

from __future__ import annotations

import orjson

from ledger.core.answers import LeaseGranted
from ledger.core.commands import RenewLease
from ledger.core.log import Log
from ledger.core.refusals import Reason, Refused
from ledger.core.times import format_time
from ledger.core.vocabulary import LeaseEnd
from ledger.failures import Failure, FailureKind
from ledger.ledger_time import LedgerTime
from ledger.store.errors import CommitUnknown, StoreError
from ledger.store.interface import Changing, Store
from ledger.store.rows import blob, number, text
from ledger.store.tables import LEASES, RUNS, Row


def renew(
    store: Store, log: Log, time: LedgerTime, command: RenewLease
) -> LeaseGranted | Refused | Failure:
    """Extends the lease to `ttl_ms` from now, if it is live, newest, and this process's own.

    Repeating it is harmless, so an unclear commit is told as such and simply tried again.
    """
    try:
        with store.change() as changing:
            return _renew(changing, log, time, command)
    except CommitUnknown:
        return Failure(FailureKind.MAYBE_COMMITTED)
    except StoreError:
        return Failure(FailureKind.STORE_UNAVAILABLE, retry_after_ms=500)


def _renew(
    changing: Changing, log: Log, time: LedgerTime, command: RenewLease
) -> LeaseGranted | Refused:
    key: Row = (log.tenant, command.run)
    runs = changing.get(RUNS, [key])
    if not runs:
        return Refused(
            Reason.RUN_NOT_FOUND,
            "There is no run of this id. Nothing was changed. Open the run first.",
            run=command.run,
        )
    leases = changing.get(LEASES, [key], lock=True)
    now_us = time.now_us(head_us=changing.head(log.number).time_us, clock_us=changing.clock_us())
    refused = _refusal(runs[0], leases[0] if leases else None, command, now_us)
    if refused is not None:
        return refused
    expires_us = now_us + command.ttl_ms * 1000
    # A renewal may also shorten: the sweep then has to look sooner than it would have.
    due_us = min(expires_us, number(leases[0][8] or expires_us))
    changed = changing.update(
        LEASES,
        {"expires_us": expires_us, "due_us": due_us},
        equal={
            "tenant": log.tenant,
            "run": command.run,
            "token": command.token,
            "process": command.process,
            "ended": LeaseEnd.NOT_ENDED.value,
        },
        greater={"expires_us": now_us},
    )
    if not changed:
        return _expired(command, number(leases[0][6]))
    return LeaseGranted(
        token=command.token,
        holder=text(leases[0][3]),
        principal=text(leases[0][4]),
        expires_us=expires_us,
        now_us=now_us,
        cancel_requested=bool(orjson.loads(blob(runs[0][8]))[7]),
    )


def _refusal(run: Row, lease: Row | None, command: RenewLease, now_us: int) -> Refused | None:
    if run[6]:
        return Refused(
            Reason.RUN_CLOSED,
            "The run is closed. Nothing was changed. Stop driving it.",
            run=command.run,
        )
    if lease is None or lease[2] != command.token:
        return Refused(
            Reason.STALE_LEASE,
            "This token is not the run's newest. Nothing was changed. Stop driving the run.",
            run=command.run,
        )
    if lease[5] != command.process:
        return Refused(
            Reason.LEASE_OF_ANOTHER_PROCESS,
            "The lease belongs to another process. Nothing was changed. Acquire your own.",
            run=command.run,
        )
    if lease[7] or number(lease[6]) <= now_us:
        return _expired(command, number(lease[6]))
    return None


def _expired(command: RenewLease, expires_us: int) -> Refused:
    return Refused(
        Reason.LEASE_EXPIRED,
        "The lease has ended and cannot be renewed. Nothing was changed. Acquire a new lease and "
        "read the resume state before going on.",
        run=command.run,
        details={"expired_at": format_time(expires_us)},
    )
