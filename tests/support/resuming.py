"""Reading runs as a server of `LedgerInProcess` does, and what a process is given to resume one."""

from __future__ import annotations

from ledger.core.log import Log
from ledger.core.refusals import Refused
from ledger.paging import Page
from ledger.reading import RunReader
from ledger.store.interface import StoredHead
from ledger.vault import Vault
from ledger.views import ResumePage
from projections.idempotency import IdempotencyRows
from projections.views import Views
from tests.support.driving import Driver
from tests.support.in_process import LedgerInProcess


def reader(ledger: LedgerInProcess, *, at: int = 0) -> RunReader:
    """The reader of one of the servers."""
    replica = ledger.replicas[at]
    time = replica.sequencer.time(ledger.tenant)

    def now_us(_: Log, head: StoredHead) -> int:
        with replica.store.change() as changing:
            return time.now_us(head_us=head.time_us, clock_us=changing.clock_us())

    return RunReader(
        store=replica.store,
        rows=Views(),
        claims=IdempotencyRows(),
        vault=Vault(ledger.house.keyring),
        now_us=now_us,
    )


def resume(driver: Driver, *, size: int = 100, after: int | None = None) -> ResumePage | Refused:
    """What the driver's process is given, with the token it last had."""
    return reader(driver.ledger, at=driver.at).resume(
        driver.ledger.log,
        driver.run,
        Page(size, None if after is None else (after,)),
        token=driver.token,
        process=driver.process,
        bytes_max=1 << 20,
    )


def resumed(driver: Driver) -> ResumePage:
    """The same, where it may."""
    page = resume(driver)
    assert isinstance(page, ResumePage), page
    return page
