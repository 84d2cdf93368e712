"""Servers that die where a test says: the parent of them all, and one of them as a test sees it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import grpc

from ledger.store.settings import Moment
from tests.crash.dying_server import FOLDER_VARIABLE
from tests.support.nursery import Child, Nursery
from tests.support.server_process import LedgerServer

_WAIT_S: Final = 30.0
_NO_SWEEP: Final = {"LEDGER_SWEEP_MS": "3600000", "LEDGER_CHECK_MS": "600000"}
"""Nothing but the test's own commands reaches the writing thread, so statements can be counted."""


@dataclass(frozen=True, slots=True)
class Window:
    """A place in an append: before or after its statement of that number, counted from 1."""

    number: int
    moment: Moment

    def __str__(self) -> str:
        return f"{self.moment} {self.number}"


class MortalServer(LedgerServer):
    """A server that can be told where to die or to wait. Restarts serve the same address."""

    def __init__(
        self,
        nursery: Nursery,
        folder: Path,
        store_url: str,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        given = {**_NO_SWEEP, FOLDER_VARIABLE: str(folder), **(settings or {})}
        super().__init__(folder, store_url, settings=given)
        self.store_url = store_url
        self.keys = Path(given.get("LEDGER_KEYS_DIR", folder / "keys"))
        self._nursery = nursery

    def spawn(self, environment: Mapping[str, str], log: Path) -> Child:
        """See `LedgerServer.spawn`."""
        return Child(self._nursery, self._nursery.start(environment, log))

    def channel(self) -> grpc.Channel:
        """A channel that shares no connection, and no memory of refused ones, with another."""
        options = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
        return grpc.insecure_channel(self.address, options=options)

    def arm(
        self,
        act: Literal["die", "wait"],
        window: Window,
        *,
        kind: str = "",
        thread: Literal["sequencer-", "access-"] = "sequencer-",
    ) -> None:
        """From the next statement of the writing thread on, statements are counted: all, or those
        of one kind. `thread`: of the log, or of the access log."""
        for name in ("seen", "reached", "go-on"):
            (self.folder / name).unlink(missing_ok=True)
        order = self.folder / "order-next"
        order.write_text(f"{act} {window.number} {window.moment} {thread} {kind}", encoding="ascii")
        order.rename(self.folder / "order")

    def seen(self) -> list[str]:
        """Statements since it was armed, `number moment kind` each."""
        try:
            return (self.folder / "seen").read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            return []

    def died(self) -> bool:
        """Whether it is dead by the order; waits for nothing."""
        return self._process is not None and self._process.poll() == -signal.SIGKILL

    def bury(self) -> None:
        """Waits until it is dead by the order."""
        assert self.wait() == -signal.SIGKILL, self.log()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The block runs once the server waits at its window; afterwards the server goes on."""
        deadline = time.monotonic() + _WAIT_S
        while not (self.folder / "reached").exists():
            assert time.monotonic() < deadline, f"not reached; seen: {self.seen()}"
            time.sleep(0.002)  # pause: between looks at what the server has reached
        try:
            yield
        finally:
            (self.folder / "go-on").touch()
