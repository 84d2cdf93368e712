"""Keeps a server, a runtime and a confirmer alive through deaths that are ordered, and judges."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ledger.core.entry import Entry
from ledger.keyring import Keyring
from ledger.store.interface import Store
from ledger.store.opening import open_store
from ledger.tenants import Tenants
from ledger.vault import Vault
from tests.crash.deaths import COMMITTED_TWINS, LAST_ENTRIES, Death, Role, Victim
from tests.crash.deaths import Window as Place
from tests.crash.dying_runtime import VARIABLE, WAITING, Trial
from tests.crash.judging import judge, judge_ended
from tests.crash.mortal_server import MortalServer, Window
from tests.crash.outside import Notes, World
from tests.crash.withholding_proxy import WithholdingProxy
from tests.support.nursery import Child, Nursery
from tests.support.oracle import entries_of, verify_log
from tests.support.whole_log import verify_whole_log

SHIFT_S: Final = 9
"""Past a dead holder's lease and operation deadline, and less than what a server that goes on
takes for a broken clock (rules, section 2)."""
_WAIT_S: Final = 60.0
_LIVES_MAX: Final = 40
_KILLED: Final = -9
_PAUSE_S: Final = 0.002

NON_IDEMPOTENT: Final = ("NON_IDEMPOTENT_WRITE",) * 3


class Supervisor:
    """One server on one store, the world beside it, and the clients that come and go."""

    def __init__(self, server: MortalServer, clients: Nursery, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.world = World(folder)
        self.happened: list[Death] = []
        self._server = server
        self._clients = clients
        self._folder = folder
        self._notes = Notes(folder)
        self._proxy = WithholdingProxy(folder / "withhold", lambda: server.address)
        self._proxy.__enter__()
        self._lives = 0
        self._buried = False
        self._shift_s = 0
        self._size_at_shift = -1
        self._store: Store = open_store(server.store_url)
        self._keyring = Keyring.load(server.keys)
        (self._log,) = Tenants(self._store, Vault(self._keyring)).all()

    def close(self) -> None:
        """Closes the store and the proxy; the server belongs to its maker."""
        self._store.close()
        self._proxy.__exit__(None, None, None)

    def drive(
        self,
        runs: Sequence[str],
        deaths: Sequence[Death],
        classes: Sequence[str] = NON_IDEMPOTENT,
    ) -> list[Death]:
        """Lives and deaths until every run is closed; answers the deaths that did not come.

        Each process is told the first death left that lies in its work; one whose window was not
        passed is left for the next process."""
        left = list(deaths)
        died = False
        for _ in range(_LIVES_MAX):
            if died:
                self._sweep(left, runs, classes)
            status = self._life(Role.RUNTIME, left, runs, classes, resumed=died)
            if status == 0:
                self._judge_ended(runs, len(classes))
                return left
            died = status == _KILLED
            self._shift()
            while not died and self._life(Role.CONFIRMER, left, runs, classes) == _KILLED:
                self._judge()
        raise AssertionError(f"the runs do not end; left: {[str(death) for death in left]}")

    def verify(self) -> list[Entry]:
        """The whole log, from the store's rows and from what the server answers; the inline
        projections against a rebuild; and everything acknowledged in it."""
        entries = verify_log(self._store, self._log, self._keyring)
        judge(entries, self.world, self._notes)
        assert [e.leaf_hash for e in verify_whole_log(self._server)] == [
            e.leaf_hash for e in entries
        ]
        return entries

    # Lives

    def _life(
        self,
        role: Role,
        left: list[Death],
        runs: Sequence[str],
        classes: Sequence[str],
        *,
        resumed: bool = False,
    ) -> int:
        """One process from start to end, its server kept alive. A death that came is taken out of
        `left`. Answers the exit status; anything but an end or an ordered death fails."""
        death = _next(left, role, resumed=resumed)
        child = self._start(role, death, runs, classes)
        size = len(self._entries())
        status = self._wait(child, death, size)
        if (self._folder / "reached").exists():
            assert death is not None
            if death.victim is Victim.CLIENT:
                self._check_window(death, size)
            elif not self._buried:
                self._bury(death, size)
            left.remove(death)
            self.happened.append(death)
        assert status in (0, WAITING, _KILLED), self._words()
        ordered = death is not None and death.victim is not Victim.SERVER
        assert status != _KILLED or ordered, self._words()
        self._judge()
        return status

    def _start(
        self, role: Role, death: Death | None, runs: Sequence[str], classes: Sequence[str]
    ) -> Child:
        (self._folder / "reached").unlink(missing_ok=True)
        (self._server.folder / "order").unlink(missing_ok=True)
        self._proxy.pass_all()
        self._buried = False
        self._lives += 1
        token = self._server.token("confirmer" if role is Role.CONFIRMER else "runtime")
        trial = Trial(
            role=role,
            server=self._proxy.address,
            server_folder=str(self._server.folder),
            server_pid=self._server.pid,
            token=token,
            folder=str(self._folder),
            runs=list(runs),
            classes=list(classes),
            death=death.told() if death else None,
        )
        environment = {**os.environ, VARIABLE: trial.text()}
        pid = self._clients.start(environment, self._folder / f"log-{self._lives}")
        return Child(self._clients, pid)

    def _wait(self, child: Child, death: Death | None, size: int) -> int:
        """Until the process has ended. Meanwhile a dead server is started again, and a process
        whose request or answer was swallowed is killed."""
        deadline = time.monotonic() + _WAIT_S
        while (status := child.poll()) is None:
            assert time.monotonic() < deadline, f"{death}: does not end\n{self._words()}"
            if self._server.died():
                assert death is not None, self._server.log()
                if death.victim is Victim.BOTH:
                    child.kill()
                    child.wait(_WAIT_S)
                self._bury(death, size)
            elif self._proxy.swallowed.is_set():
                assert death is not None
                if self._is_there(death, size):
                    child.kill()
            time.sleep(_PAUSE_S)  # pause: between looks at the processes
        return status

    def _bury(self, death: Death, size: int) -> None:
        """The server is dead, or about to be; it starts again on what it left."""
        self._server.bury()
        self._check_window(death, size)
        self._buried = True
        self._server.start()

    def _is_there(self, death: Death, size: int) -> bool:
        """Whether a death in a call came where it should: the call committed, or not."""
        last = self._last(self._entries())
        there = last.type in LAST_ENTRIES[COMMITTED_TWINS.get(death.window, death.window)]
        return (there and last.index >= size) == death.window.commits

    def _check_window(self, death: Death, size: int) -> None:
        """The place of a death, proved by the log that it left."""
        last = self._last(self._entries())
        if death.window.call:
            assert self._is_there(death, size), (str(death), last.type)
        else:
            assert last.type in LAST_ENTRIES[death.window], (str(death), last.type)

    # The sweep

    def _sweep(self, left: list[Death], runs: Sequence[str], classes: Sequence[str]) -> None:
        """Has what a dead holder left swept by a server that starts, if a death in that is left.

        The runtime that dies in it is one that waits for its take-over behind the sweep."""
        death = _next(left, Role.SWEEP, resumed=True)
        if death is None or not self._lease_stands():
            return
        commits = Window(1, "after" if death.window.commits else "before")
        self._server.kill()
        if death.victim is Victim.CLIENT:
            self._server.arm("wait", commits, kind="commit")
            self._server.start()
            with self._server.waiting():
                waits = Death(Place.TAKEOVER_COMMITTED, Victim.CLIENT)
                child = self._start(Role.RUNTIME, waits, runs, classes)
                self._until(self._proxy.heard.is_set)
                child.kill()
                child.wait(_WAIT_S)
            self._until(lambda: not self._lease_stands() or self._is_taken_over())
        else:
            self._server.arm("die", commits, kind="commit")
            self._server.begin()
            self._server.bury()
            swept = self._last(self._entries()).type in LAST_ENTRIES[Place.SWEEP_COMMITTED]
            assert swept == death.window.commits
            self._server.start()
            self._until(lambda: not self._lease_stands())
        left.remove(death)
        self.happened.append(death)
        self._shift()
        self._judge()

    def _lease_stands(self) -> bool:
        """Whether the last word on the newest lease is that it was given."""
        words = [entry.type for entry in self._entries() if entry.type.startswith("lease.")]
        ended = self._last(self._entries()).type == "run.closed"
        return bool(words) and words[-1] == "lease.acquired" and not ended

    def _is_taken_over(self) -> bool:
        return self._last(self._entries()).type == "lease.acquired"

    # Looking

    def _shift(self) -> None:
        """The store's clock jumps past what a dead holder had; unless it did, and nothing was
        appended since."""
        size = len(self._entries())
        if size != self._size_at_shift:
            self._size_at_shift = size
            self._shift_s += SHIFT_S
            fresh = self._server.folder / "shift-next"
            fresh.write_text(str(self._shift_s), encoding="ascii")
            fresh.rename(self._server.folder / "shift")

    def _judge(self) -> None:
        judge(self._entries(), self.world, self._notes)

    def _judge_ended(self, runs: Sequence[str], steps: int) -> None:
        judge_ended(self._entries(), self.world, runs, steps)

    def _entries(self) -> list[Entry]:
        return entries_of(self._store, self._log)

    def _last(self, entries: Sequence[Entry]) -> Entry:
        return next(entry for entry in reversed(entries) if entry.run_id != "_log")

    def _until(self, met: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _WAIT_S
        while not met():
            assert time.monotonic() < deadline, self._words()
            time.sleep(_PAUSE_S)  # pause: between looks at the condition

    def _words(self) -> str:
        client = (self._folder / f"log-{self._lives}").read_text(encoding="utf-8")
        return f"client:\n{client}\nserver:\n{self._server.log()}"


def _next(left: Sequence[Death], role: Role, *, resumed: bool) -> Death | None:
    """The first death left that lies in this role's work; one in a take-over needs somebody to
    take over from."""
    for death in left:
        takes_over = death.window in (Place.TAKEOVER_BEGUN, Place.TAKEOVER_COMMITTED)
        if death.window.role is role and (resumed or not takes_over):
            return death
    return None
