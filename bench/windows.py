"""The windows of one store: what is measured in each round, and what the log must hold after it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from bench.ground import Side
from bench.load import LoadProcess
from bench.orders import CallLoad, Order, RowLoad, Taken
from bench.tables import Ratio, ratio

COMMANDS: Final = 100
SUBMITTERS: Final = 4
BARE_THREADS: Final = 64
UNARY: Final = {callers: f"unary, {callers} in flight" for callers in (1, 16, 64)}
SUBMIT: Final = f"{COMMANDS} commands a message, {SUBMITTERS} in flight"
ROWS_ONE: Final = "(a) INSERT, one row a commit"
ROWS_MANY: Final = f"(b) INSERT, {COMMANDS} rows a commit"
UNARY_TARGET: Final = 0.35
SUBMIT_TARGET: Final = 0.2
WARM_S: Final = 0.5


@dataclass(slots=True)
class Windows:
    """One store's windows, and what the log must hold after them."""

    side: Side
    window_s: float
    acknowledged: int = 0
    rows: int = 0
    entry_bytes: int = 0
    taken: dict[str, list[Taken]] = field(default_factory=dict)

    def warm(self, load: LoadProcess) -> None:
        """A window that counts for nothing but the entries in the log and their size."""
        taken = load.take(self._calls("warm", callers=4, commands=1, window_s=WARM_S))
        self.acknowledged += taken.acknowledged
        self.entry_bytes = self.side.entry_bytes()

    def phases(self, number: int) -> list[tuple[str, Order]]:
        """The windows of one round."""
        calls: list[tuple[str, Order]] = [
            (label, self._calls(f"r{number}", callers=callers, commands=1, window_s=self.window_s))
            for callers, label in UNARY.items()
        ]
        submit = self._calls(
            f"r{number}", callers=SUBMITTERS, commands=COMMANDS, window_s=self.window_s
        )
        return [
            *calls,
            (ROWS_ONE, self._bare(f"a{number}", connections=BARE_THREADS, rows=1)),
            (SUBMIT, submit),
            (ROWS_MANY, self._bare(f"b{number}", connections=SUBMITTERS, rows=COMMANDS)),
        ]

    def take(self, load: LoadProcess, label: str, order: Order) -> None:
        """Measures one window."""
        if isinstance(order, RowLoad):
            taken = load.take(self._numbered(order))
            self.rows += taken.acknowledged + BARE_THREADS * COMMANDS
        else:
            taken = load.take(order)
            self.acknowledged += taken.acknowledged
        self.taken.setdefault(label, []).append(taken)

    def ratios(self) -> list[Ratio]:
        """What the targets speak of."""
        taken = self.taken
        unary, submit = taken[UNARY[64]], taken[SUBMIT]
        return [
            ratio("unary, 64 in flight / (a)", unary, taken[ROWS_ONE], target=UNARY_TARGET),
            ratio("100 commands a message / (b)", submit, taken[ROWS_MANY], target=SUBMIT_TARGET),
        ]

    def count(self) -> dict[str, int]:
        """What was acknowledged, and what stands in the log."""
        return {
            "acknowledged": self.acknowledged,
            "own_entries": self.side.own_entries(),
            "log_size": self.side.log_size(),
        }

    def _calls(self, name: str, *, callers: int, commands: int, window_s: float) -> CallLoad:
        server = self.side.server
        return CallLoad(
            address=server.address,
            token=server.token(),
            server_pid=server.pid,
            name=f"{name}-{callers}-{commands}",
            callers=callers,
            commands=commands,
            window_s=window_s,
        )

    def _bare(self, name: str, *, connections: int, rows: int) -> RowLoad:
        url = self.side.bare_url
        return RowLoad(
            url=url,
            name=name,
            first=0,
            # SQLite has one writer: a second connection would only wait for the first.
            connections=1 if url.startswith("sqlite:") else connections,
            rows=rows,
            entry_bytes=self.entry_bytes,
            window_s=self.window_s,
        )

    def _numbered(self, order: RowLoad) -> RowLoad:
        """Goes on after the rows of earlier windows."""
        return replace(order, first=self.rows)
