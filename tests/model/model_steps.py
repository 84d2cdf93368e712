"""The model's steps: planning and starting them, and their keys (rules, sections 4, 5 and 7)."""

from __future__ import annotations

from typing import Any

from tests.model.model_runs import RANK, SPENT, WELL, Facts, Runs


class Steps(Runs):
    """Plans, and the directives of StartStep."""

    def _allow_downgrade(self, r: Facts, s: Facts, c: Facts) -> str:
        self._tool(c["tool"])["allowed"][c["version"]] = c["effect"]
        self._note("_log", "tool.downgrade_allowed")
        return "ok"

    def _tool(self, name: str) -> Any:
        return self.tools.setdefault(name, {"bound": {}, "allowed": {}})

    def _plan_steps(self, r: Facts, s: Facts, c: Facts) -> str:
        new: Facts = {}
        for p in c["steps"]:
            s = r["steps"].get(p["step"])
            refused = _replanned(s, p) if s else self._planned(r, p, new)
            if refused:
                return refused
        for p in new.values():
            bound, write = self._tool(p["tool"])["bound"], RANK[p["effect"]] > 1
            if p["version"] not in bound:
                bound[p["version"]] = p["effect"]
                self._note("_log", "tool.declared", own=False)
            keyed = {"key": p["key"] * write, "supersedes": p["supersedes"] * write, "write": write}
            s = p | keyed | {"attempts": [], "decisions": [], "contra": False, "vague": set()}
            r["steps"][p["step"]] = s
            self._move(r, s, "step.planned", "PLANNED")
        self.facts["keys"] = tuple(r["steps"][p["step"]]["key"] for p in c["steps"])
        return "ok"

    def _planned(self, r: Facts, p: Facts, new: Facts) -> str:
        tool = self._tool(p["tool"])
        before = {q["version"]: q["effect"] for q in new.values() if q["tool"] == p["tool"]}
        known = tool["bound"] | before
        effect = p["effect"] or known.get(p["version"], "NON_IDEMPOTENT_WRITE")
        if known.get(p["version"], effect) != effect:
            return "CLASS_MISMATCH"
        strongest = max((RANK[e] for e in known.values()), default=0)
        allowed = RANK[tool["allowed"].get(p["version"], "NON_IDEMPOTENT_WRITE")]
        if p["version"] not in known and strongest > 1 and RANK[effect] < min(strongest, allowed):
            return "CLASS_DOWNGRADE"
        if RANK[effect] > RANK[r["content"]["ceiling"]]:
            return "ABOVE_CEILING"
        if p["step"] in new or any(a not in r["steps"] and a not in new for a in p["after"]):
            return "PLAN_MISMATCH" if p["step"] in new else "STEP_NOT_PLANNED"
        new[p["step"]] = p | {"effect": effect}
        return ""

    def _withdraw_step(self, r: Facts, s: Facts, c: Facts) -> str:
        if s["state"] == "PLANNED":
            self._move(r, s, "step.withdrawn", "WITHDRAWN")
        return "ok" if s["state"] == "WITHDRAWN" else "WRONG_STATE"

    def _runs_again(self, r: Facts, s: Facts, c: Facts) -> bool:
        if not self.first or not s or r["status"] or s["state"] != "STARTED":
            return False
        a = s["attempts"][-1]
        same = a["index"] == self.first["own"][0] and a["process"] == c["process"]
        again = bool(same and a["token"] == r["token"] and a["deadline"] > self.now)
        self.facts |= self.first["facts"] if again else {}
        return again

    def _start_step(self, r: Facts, s: Facts, c: Facts) -> str:
        self.facts.clear()
        if s["state"] == "WITHDRAWN" or s["version"] != c["version"]:
            return "STEP_WITHDRAWN" if s["state"] == "WITHDRAWN" else "TOOL_VERSION_MISMATCH"
        word = self._own_state(r, s) or ("CANCELLED" if r["cancel"] else "")
        word = word or self._key(r, s) or self._twins(r, s) or self._superseding(r, s)
        if word := word or self._after(r, s) or ("START_ALREADY_USED" if self.first else ""):
            return word
        self._move(r, s, "step.started", "STARTED")
        deadline = self.now + c["operation_ms"] * 1000
        a = {"token": r["token"], "process": c["process"], "deadline": deadline, "settled": ""}
        s["attempts"].append(a | {"index": s["at"], "result": None})
        self.facts |= {"token": r["token"], "attempt": len(s["attempts"]), "deadline": deadline}
        if s["key"]:
            key = {"arguments": s["arguments"], "supersedable": False, "by": "", "over": ""}
            key = self.keys.setdefault((s["tool"], s["key"]), key | {"against": []})
            key |= {"run": r, "step": s, "over": key["over"] or s["supersedes"]}
            if s["supersedes"]:
                self.keys[(s["tool"], s["supersedes"])]["by"] = s["key"]
        return "EXECUTE"

    def _own_state(self, r: Facts, s: Facts) -> str:
        if s["state"] in WELL or (s["state"] == "FAILED" and s["write"]):
            return "REPLAY_" + ("FAILED" if s["state"] == "FAILED" else "SUCCEEDED")
        if s["state"] == "STARTED" or (s["state"] == "UNKNOWN" and RANK[s["effect"]] == 3):
            return self._blocked(r, s)
        return "KEY_ABANDONED" if s["state"] == "RECONCILED_NOT_EXECUTED" else ""

    def _blocked(self, r: Facts, s: Facts) -> str:
        """HELD or UNKNOWN, for the step that stands in the way."""
        self.facts |= {"run": r["id"], "step": s["step"], "attempt": len(s["attempts"])}
        if s["state"] != "STARTED":
            self.facts["version"] = s["at"]
        return "HELD" if s["state"] == "STARTED" else "UNKNOWN"

    def _key(self, r: Facts, s: Facts) -> str:
        key = self.keys.get((s["tool"], s["key"]))
        if not key or key["arguments"] != s["arguments"]:
            return "KEY_CONFLICT" if key else ""
        owner, spent = key["step"], _executed_earlier(key)
        if key["against"] and spent and owner["state"] in ("NO_EFFECT", *SPENT):
            return self._replay(r, s, spent)
        if key["against"] and owner["state"] == "NO_EFFECT":
            return self._blocked(*key["against"][0])
        if owner is s:
            return ""
        if owner["state"] == "STARTED":
            self._due(key["run"])
        if owner["state"] in ("STARTED", "UNKNOWN"):
            return self._blocked(key["run"], owner)
        if owner["state"] in (*WELL, "FAILED"):
            return self._replay(r, s, owner)
        return "KEY_ABANDONED" if owner["state"] == "RECONCILED_NOT_EXECUTED" else ""

    def _replay(self, r: Facts, s: Facts, settled: Facts) -> str:
        state = "FAILED" if settled["state"] == "FAILED" else "SUCCEEDED"
        if s["state"] in ("PLANNED", "NO_EFFECT"):
            self._move(r, s, "step.replayed", state, own=False)
        return f"REPLAY_{state}"

    def _twins(self, r: Facts, s: Facts) -> str:
        for t in _equal_actions(r, s):
            if t["state"] in ("STARTED", "UNKNOWN") or (t["state"] == "NO_EFFECT" and t["contra"]):
                return self._blocked(r, t)
        return ""

    def _superseding(self, r: Facts, s: Facts) -> str:
        for t in _equal_actions(r, s):
            newest = t["key"]
            while (key := self.keys.get((t["tool"], newest))) and key["by"]:
                newest = key["by"]
            if t["state"] in SPENT and newest not in (s["key"], s["supersedes"]):
                return "SUPERSEDE_REQUIRED"
        old = self.keys.get((s["tool"], s["supersedes"]), {}) if s["supersedes"] else {}
        if old and old["by"] not in ("", s["key"]):
            return "SUPERSEDED_ALREADY"
        own = self.keys.get((s["tool"], s["key"]), {}).get("over", "") if s["write"] else ""
        places = sorted({s["supersedes"], own} - {""})
        return next((word for name in places if (word := self._chain(s["tool"], name))), "")

    def _chain(self, tool: str, name: str) -> str:
        """Whether every key whose place is taken is still spent without effect."""
        while name:
            old = self.keys.get((tool, name), {})
            if not old or not old["supersedable"] or _executed_earlier(old):
                return "NOT_SUPERSEDABLE"
            if old["against"]:
                return "CONTRADICTION"
            name = old["over"]
        return ""

    def _after(self, r: Facts, s: Facts) -> str:
        for before in map(r["steps"].get, s["after"]):
            key = self.keys.get((before["tool"], before["key"])) if before["write"] else None
            end, contra = before["state"], before["contra"]
            if end in SPENT and key and key["by"]:
                while key["by"]:
                    key = self.keys[(before["tool"], key["by"])]
                end, contra = key["step"]["state"], contra or bool(key["against"])
            if contra or end not in WELL:
                ended = end == "WITHDRAWN" or (end == "FAILED" and before["write"])
                return "PREDECESSOR_ENDED" if ended and not contra else "WAITING"
        return ""


def _replanned(s: Facts, p: Facts) -> str:
    if s["state"] == "WITHDRAWN":
        return "STEP_WITHDRAWN"
    names = ["tool", "version", "after", "arguments", *(["key", "supersedes"] * s["write"])]
    same = all(s[name] == p[name] for name in names) and p["effect"] in (None, s["effect"])
    return "" if same else "PLAN_MISMATCH"


def _equal_actions(r: Facts, s: Facts) -> list[Facts]:
    same = ("tool", "arguments", "write")
    others = [t for t in r["steps"].values() if t is not s and s["write"]]
    return [t for t in others if all(t[name] == s[name] for name in same)]


def _executed_earlier(key: Facts) -> Facts | None:
    earlier = [s for _, s in key["against"] if s["state"] in WELL and s is not key["step"]]
    return earlier[0] if earlier else None
