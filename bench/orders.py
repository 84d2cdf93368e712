"""What the load process is told and what it answers: one JSON object a line, both ways."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TypeAlias

import orjson


@dataclass(frozen=True, slots=True)
class CallLoad:
    """Calls on a server for `window_s`, or until `entries_max` entries are acknowledged.

    `commands` 1: unary calls; more: so many in each Submit. `name` begins every run's id."""

    address: str
    token: str
    server_pid: int
    name: str
    callers: int
    commands: int
    window_s: float
    entries_max: int = 0


@dataclass(frozen=True, slots=True)
class RowLoad:
    """INSERTs of rows as large as entries, with the durability of the ledger, without the ledger.

    `rows` stand in each commit; each of `connections` has a thread (SQLite: one writer)."""

    url: str
    name: str
    first: int
    connections: int
    rows: int
    entry_bytes: int
    window_s: float


@dataclass(frozen=True, slots=True)
class Taken:
    """What was measured in the window; `acknowledged` counts what came after it as well."""

    window_s: float
    events: int
    calls: int
    p50_ms: float
    p99_ms: float
    server_cpu_s: float
    load_cpu_s: float
    acknowledged: int

    @property
    def events_a_second(self) -> float:
        """Acknowledged events (or inserted rows) in each second of the window."""
        return self.events / self.window_s

    @property
    def cpu_us_an_event(self) -> float:
        """CPU time of the server's process for each event, microseconds."""
        return self.server_cpu_s / self.events * 1e6 if self.events else 0.0


Order: TypeAlias = CallLoad | RowLoad


def write_order(order: Order) -> bytes:
    """One line."""
    return orjson.dumps({"kind": type(order).__name__, **dataclasses.asdict(order)}) + b"\n"


def read_order(line: bytes) -> Order:
    """The order of a line."""
    fields = orjson.loads(line)
    kind = {"CallLoad": CallLoad, "RowLoad": RowLoad}[fields.pop("kind")]
    order: Order = kind(**fields)
    return order


def write_taken(taken: Taken) -> bytes:
    """One line."""
    return orjson.dumps(dataclasses.asdict(taken)) + b"\n"


def read_taken(line: bytes) -> Taken:
    """The measurement of a line."""
    return Taken(**orjson.loads(line))


def summed_up(
    spans_ns: list[tuple[int, int, int]],
    *,
    from_ns: int,
    until_ns: int,
    server_cpu_s: float,
    load_cpu_s: float,
) -> Taken:
    """What ended inside the window, from (began, ended, events) of every call."""
    inside = [span for span in spans_ns if span[1] <= until_ns]
    took_ns = sorted(ended - began for began, ended, _ in inside)
    return Taken(
        window_s=(until_ns - from_ns) / 1e9,
        events=sum(events for _, _, events in inside),
        calls=len(inside),
        p50_ms=_quantile_ms(took_ns, 0.50),
        p99_ms=_quantile_ms(took_ns, 0.99),
        server_cpu_s=server_cpu_s,
        load_cpu_s=load_cpu_s,
        acknowledged=sum(events for _, _, events in spans_ns),
    )


def _quantile_ms(sorted_ns: list[int], share: float) -> float:
    if not sorted_ns:
        return 0.0
    return sorted_ns[min(len(sorted_ns) - 1, int(len(sorted_ns) * share))] / 1e6
