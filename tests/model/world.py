"""The world outside: what tools do there, and whether they did it.

A call is made only by a runtime that was told EXECUTE. It may take effect at any moment until its
operation deadline, whoever has died meanwhile, and stops there: so every tool here stops.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Call:
    """A tool at work. `stops_us` is the time, in elapsed microseconds, past which it does nothing;
    `over` says how it ended: `done`, `refused` before any effect, `stopped` at the deadline."""

    tool: str
    key: str
    stops_us: int
    over: str = ""

    @property
    def named(self) -> str:
        """Its key, where a caller gave one: a derived key depends on the tenant's name."""
        return "a derived key" if self.key.startswith("d:") else self.key


@dataclass
class World:
    """Counts effects by (tool, key). `place_of` names the key whose place a key takes."""

    effects: Counter[tuple[str, str]] = field(default_factory=Counter)
    calls: list[Call] = field(default_factory=list)
    place_of: dict[tuple[str, str], str] = field(default_factory=dict)

    def running(self, now_us: int) -> list[Call]:
        """Calls that may still take effect; the others stop."""
        for call in self.calls:
            if not call.over and call.stops_us <= now_us:
                call.over = "stopped"
        return [call for call in self.calls if not call.over]

    def effects_of_action(self, tool: str, key: str) -> int:
        """Effects under a key and under every key whose place it took."""
        count = 0
        while key:
            count += self.effects[(tool, key)]
            key = self.place_of.get((tool, key), "")
        return count

    def land(self, call: Call) -> int:
        """The call takes effect; how many effects its action has now."""
        call.over = "done"
        self.effects[(call.tool, call.key)] += 1
        return self.effects_of_action(call.tool, call.key)
