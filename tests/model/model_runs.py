"""The model's runs: leases, dead holders, opening and closing (rules, sections 1 to 3)."""

from __future__ import annotations

from typing import Any, Final

RANK: Final = {"READ_ONLY": 0, "PROPOSE": 1, "IDEMPOTENT_WRITE": 2, "NON_IDEMPOTENT_WRITE": 3}
WELL: Final = ("SUCCEEDED", "RECONCILED_EXECUTED")
SPENT: Final = ("FAILED", "RECONCILED_NOT_EXECUTED")
DRIVES: Final = set(
    "run.opened lease.acquired step.planned step.started step.completed step.unknown"
    " step.withdrawn run.closed".split()
)
Facts = dict[str, Any]


class Runs:
    """One tenant's runs, keys, tools, request ids and log, and what happens to runs."""

    def __init__(self) -> None:
        self.runs: Facts = {}
        self.keys: dict[tuple[str, str], Any] = {}
        self.tools: Facts = {}
        self.asked: dict[tuple[str, str], Any] = {}
        self.log: list[tuple[str, str]] = []
        self.now, self.who, self.role = 0, "", ""
        self.own: list[int] = []
        self.facts, self.seen, self.first = Facts(), Facts(), Facts()

    def sweep(self, runs: list[str], now: int) -> None:
        """Performs what is due on every run, on those named first."""
        self.now = now
        for run in [*runs, *self.runs]:
            self._due(self.runs[run])

    def _open_question(self, name: str) -> bool:
        """The rules do not decide: whether a report on an attempt that had ended otherwise is a
        `contradiction`, and whether a release ends attempts of `older` tokens."""
        return bool(self.seen.get(name))

    def _note(self, run: str, type_: str, *, own: bool = True) -> int:
        if own:
            self.own.append(len(self.log))
            if type_ in DRIVES:
                self.runs[run]["drivers"].add(self.who)
        self.log.append((run, type_))
        return len(self.log) - 1

    def _move(self, r: Facts, s: Facts, type_: str, state: str, *, own: bool = True) -> None:
        s["state"], s["at"] = state, self._note(r["id"], type_, own=own)
        key = self.keys.get((s["tool"], s["key"]))
        if state == "FAILED" and type_ == "step.completed" and key and key["step"] is s:
            key["supersedable"] = True

    # Leases and dead holders (rules, sections 2 and 3)

    def _live(self, r: Facts) -> bool:
        return r["token"] > 0 and not r["ended"] and r["expires"] > self.now

    def _due(self, r: Facts) -> None:
        if r["status"]:
            return
        self._expire(r)
        for s in in_state(r, "STARTED"):
            a = s["attempts"][-1]
            if a["token"] == r["token"] and self._live(r):
                dead = a["deadline"] + 10_000_000 <= self.now
            else:
                dead = a["deadline"] <= self.now or not s["write"]
            if dead:
                self._lose(r, s)
        self._close_if_cancelled(r)

    def _expire(self, r: Facts) -> None:
        if r["token"] and not r["ended"] and r["expires"] <= self.now:
            self._note(r["id"], "lease.expired", own=False)
            r["ended"] = True

    def _lose(self, r: Facts, s: Facts, *, own: bool = False) -> None:
        if not s["write"]:
            s["attempts"][-1]["settled"] = "FAILED"
        type_, state = ("step.unknown", "UNKNOWN") if s["write"] else ("step.completed", "FAILED")
        self._move(r, s, type_, state, own=own)

    def _close_if_cancelled(self, r: Facts) -> None:
        if r["status"] or not r["cancel"] or self._live(r) or in_state(r, "STARTED"):
            return
        self._expire(r)
        self._end(r, "CANCELLED", own=False)

    def _end(self, r: Facts, status: str, *, own: bool) -> None:
        for s in in_state(r, "PLANNED"):
            self._move(r, s, "step.withdrawn", "WITHDRAWN", own=own)
        self._note(r["id"], "run.closed", own=own)
        r["status"], r["ended"] = status, True

    def _granted(self, r: Facts) -> str:
        self.facts |= {"token": r["token"], "expires": r["expires"]}
        return "ok"

    def _renew_lease(self, r: Facts, s: Facts, c: Facts) -> str:
        r["expires"] = self.now + c["ttl_ms"] * 1000
        return self._granted(r)

    def _acquire_lease(self, r: Facts, s: Facts, c: Facts) -> str:
        same = r["process"] == c["process"]
        again = self.first and self.first["facts"]["token"] == r["token"]
        if same and (self._live(r) or again):
            return self._granted(r)
        if self._live(r) or self.first:
            return "LEASE_HELD" if self._live(r) else "ACQUIRE_ALREADY_USED"
        self._note(c["run"], "lease.acquired")
        r["token"] += 1
        r["streak"] = r["streak"] if same else r["token"]
        r |= {"process": c["process"], "ended": False}
        return self._renew_lease(r, s, c)

    def _release_lease(self, r: Facts, s: Facts, c: Facts) -> str:
        if self._live(r):
            self._note(c["run"], "lease.released")
            r["ended"] = True
            for s in in_state(r, "STARTED"):
                if s["attempts"][-1]["token"] == r["token"] or self._open_question("older"):
                    self._lose(r, s)
            self._due(r)
        return "ok"

    def _break_lease(self, r: Facts, s: Facts, c: Facts) -> str:
        if self._live(r):
            self._note(c["run"], "lease.broken")
            r["ended"] = True
        else:
            self._due(r)
        for s in in_state(r, "STARTED"):
            self._lose(r, s)
        self._close_if_cancelled(r)
        return "ok"

    # Runs and plans (rules, sections 1 and 7)

    def _open_run(self, r: Facts, s: Facts, c: Facts) -> str:
        if r:
            return "ok" if r["content"] == c and not r["status"] else "RUN_EXISTS"
        r = {"id": c["run"], "content": c, "steps": {}, "drivers": {c["initiator"]}, "status": ""}
        r |= {"token": 0, "process": "", "ended": False, "expires": 0, "streak": 0, "cancel": False}
        self.runs[c["run"]] = r
        self._note(c["run"], "run.opened")
        return "ok"

    def _request_cancel(self, r: Facts, s: Facts, c: Facts) -> str:
        if not r["status"] and not r["cancel"]:
            self._note(c["run"], "cancel.requested")
            r["cancel"] = True
            self._close_if_cancelled(r)
        self.facts["closed"] = bool(r["status"])
        return "ok"

    def _close_run(self, r: Facts, s: Facts, c: Facts) -> str:
        if in_state(r, "STARTED"):
            return "STEP_STARTED"
        listed = any(s["state"] == "UNKNOWN" or s["contra"] for s in r["steps"].values())
        if listed and c["status"] == "COMPLETED":
            return "STEP_UNKNOWN"
        self._end(r, c["status"], own=True)
        return "ok"


def in_state(r: Facts, state: str) -> list[Facts]:
    """A run's steps in a state, in the order of planning."""
    return [s for s in r["steps"].values() if s["state"] == state]
