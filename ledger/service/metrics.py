"""Counts and times of calls, for Prometheus."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """One registry a server; nothing in it tells a tenant, a principal or a run."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "ledger_calls_total", "Calls ended", ("method", "code"), registry=self.registry
        )
        self._seconds = Histogram(
            "ledger_call_seconds",
            "How long calls took",
            ("method",),
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self._streams = Gauge("ledger_open_streams", "Streams open now", registry=self.registry)
        self._counted: dict[tuple[str, str], Counter] = {}
        self._timed: dict[str, Histogram] = {}

    def ended(self, method: str, code: str, seconds: float) -> None:
        """A call has ended."""
        counted = self._counted.get((method, code))
        if counted is None:
            counted = self._counted[(method, code)] = self._calls.labels(method, code)
        counted.inc()
        timed = self._timed.get(method)
        if timed is None:
            timed = self._timed[method] = self._seconds.labels(method)
        timed.observe(seconds)

    def streams(self, count: int) -> None:
        """How many streams are open now."""
        self._streams.set(count)

    def serve(self, *, host: str, port: int) -> None:
        """Answers them over HTTP from a thread of its own."""
        start_http_server(port, addr=host, registry=self.registry)
