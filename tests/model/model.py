"""What the ledger must answer, in plain dicts: written from the contract and the rules alone.

One command at a time, at the ledger time it is decided at; nothing is imported from the product.
`log` names run and type of every entry that must stand. Where the rules leave a case open,
`_open_question` takes what the ledger did, and looks at nothing else of its answer.
"""

from __future__ import annotations

from typing import Final

from tests.model.model_runs import Facts
from tests.model.model_steps import Steps

REPORTED: Final = ("SUCCEEDED", "FAILED", "NO_EFFECT")
# Command: the roles that may, then what is asked first, in this order (rules, sections 1, 2 and 4).
COMMANDS: Final = {
    "OpenRun": ("drive", ""),
    "AcquireLease": ("drive", "exists due open"),
    "ReleaseLease": ("drive", "exists open newest"),
    "BreakLease": ("admin", "exists open"),
    "PlanSteps": ("drive", "exists open newest process live"),
    "WithdrawStep": ("drive", "exists open newest process live step"),
    "StartStep": ("drive", "exists due again open newest process live step"),
    "CompleteStep": ("drive", "exists step attempt"),
    "MarkUnknown": ("drive", "exists attempt"),
    "AttachEvidence": ("drive reconcile confirm", "exists"),
    "RequestCancel": ("cancel drive", "exists open due"),
    "CloseRun": ("drive", "exists due open newest process live"),
    "Reconcile": ("reconcile confirm", "exists self step due"),
    "AllowDowngrade": ("admin", ""),
    "RenewLease": ("drive", "exists open newest process live"),
}
TELL_CANCEL: Final = set(
    "AcquireLease RenewLease PlanSteps WithdrawStep CompleteStep MarkUnknown".split()
)


class Model(Steps):
    """What the ledger must answer."""

    def answer(
        self, who: Facts, request: str, do: str, c: Facts, *, now: int, seen: Facts
    ) -> Facts:
        """Its word, the facts to compare, and (last index, count) of its own entries."""
        self.now, self.who, self.own, self.facts, self.seen = now, who["id"], [], {}, seen
        self.role = next((role for role in COMMANDS[do][0].split() if _may(who, role, do)), "")
        content = (do, {name: value for name, value in c.items() if name != "process"})
        first = self.first = self.asked.get((self.who, request), {})
        r = self.runs.get(c.get("run", ""), {})
        said: Facts = {"word": "ROLE_MISSING", "facts": self.facts, "own": None}
        if not self.role:
            return said
        if first and first["content"] != content:
            return said | {"word": "REQUEST_REUSED"}
        if first and do not in ("StartStep", "AcquireLease"):
            told = {"cancel": r["cancel"]} if "cancel" in first["facts"] else {}
            repeated: Facts = first | {"facts": first["facts"] | told}
            return repeated
        s = r["steps"].get(c.get("step"), {}) if r else {}
        said["word"] = self._guard(COMMANDS[do][1], r, s, c) or getattr(self, _named(do))(r, s, c)
        said["facts"] |= self._cancel(self.runs.get(c.get("run", ""), {}), do, said["word"])
        if self.own:
            said |= {"own": (self.own[-1], len(self.own)), "content": content}
            self.asked[(self.who, request)] = said
        elif first and (said["word"] == "EXECUTE_AGAIN" or self._same_lease(first)):
            said["own"] = first["own"]
        return said

    def _same_lease(self, first: Facts) -> bool:
        return "token" in self.facts and self.facts["token"] == first["facts"]["token"]

    def _cancel(self, r: Facts, do: str, word: str) -> Facts:
        tells = do == "StartStep" or (do in TELL_CANCEL and (word == "ok" or "state" in self.facts))
        return {"cancel": bool(r.get("cancel"))} if tells else {}

    def _guard(self, asked: str, r: Facts, s: Facts, c: Facts) -> str:
        if "exists" in asked and not r:
            return "RUN_NOT_FOUND"
        for check in asked.split():
            if check == "due":
                self._due(r)
            elif check == "again" and self._runs_again(r, s, c):
                return "EXECUTE_AGAIN"
            elif check == "open" and r["status"]:
                return "RUN_CLOSED"
            elif check == "newest" and c["token"] != r["token"]:
                return "STALE_LEASE"
            elif check == "process" and c["process"] != r["process"]:
                return "LEASE_OF_ANOTHER_PROCESS"
            elif check == "live" and not self._live(r):
                return "LEASE_EXPIRED"
            elif check == "self" and self.who in r["drivers"]:
                return "SELF_RECONCILE"
            elif check == "step" and not s:
                return "STEP_NOT_PLANNED"
            elif check == "attempt" and not (s and 1 <= c["attempt"] <= len(s["attempts"])):
                return "NO_SUCH_ATTEMPT"
        return ""

    # Reports, evidence, decisions (rules, sections 3 and 6)

    def _complete_step(self, r: Facts, s: Facts, c: Facts) -> str:
        a, newest, outcome = s["attempts"][c["attempt"] - 1], s["attempts"][-1], c["outcome"]
        equal = a["settled"] == outcome and a["result"] == c["result"]
        mine, current = c["token"] == a["token"], self._counts_as_newest(r, a)
        late = s["state"] == "UNKNOWN" and outcome == "SUCCEEDED" and not s["decisions"]
        word, contra = "ALREADY_RECORDED", False
        if r["status"] or not equal:
            if (
                not r["status"]
                and mine
                and current
                and a is newest
                and (late or s["state"] == "STARTED")
            ):
                word = self._settle(r, s, a, c)
            else:
                current = current if mine else c["token"] == r["token"]
                word, contra = "LATE" if current or r["status"] else "STALE_LEASE", True
        if contra:
            self.facts["contra"] = self._attach(r, s, a, outcome)
        else:
            self.facts["contra"] = s["contra"]
        self.facts["state"] = s["state"]
        return word

    def _settle(self, r: Facts, s: Facts, a: Facts, c: Facts) -> str:
        state = c["outcome"]
        a |= {"settled": state, "result": c["result"]}
        if state == "SUCCEEDED":
            for other in s["attempts"]:
                other["settled"] = other["settled"] or "by success"
        elif s["write"] and not all(other["settled"] for other in s["attempts"]):
            state = "UNKNOWN"
        self._move(r, s, "step.completed", state)
        self._close_if_cancelled(r)
        return "RECORDED"

    def _counts_as_newest(self, r: Facts, a: Facts) -> bool:
        same = a["process"] == r["process"] and r["streak"] <= a["token"] + 1
        return bool(a["token"] == r["token"] or same)

    def _attach(self, r: Facts, s: Facts, a: Facts, outcome: str | None) -> bool:
        """An entry of evidence about a step; answers whether it contradicts."""
        at = self._note(r["id"], "evidence.attached")
        if outcome or self.role == "reconcile":
            s["at"] = at
        contra = _contradicts(s, a, outcome) if outcome else False
        contra = self._open_question("contradiction") if contra is None else contra
        key = self.keys.get((s["tool"], s["key"]))
        if contra and key and (r, s) not in key["against"]:
            key["against"].append((r, s))
        s["contra"] = s["contra"] or contra
        return contra

    def _mark_unknown(self, r: Facts, s: Facts, c: Facts) -> str:
        a = s["attempts"][c["attempt"] - 1]
        newest = a is s["attempts"][-1]
        if c["token"] != a["token"]:
            if not a["token"] < c["token"] == r["token"] or not self._live(r):
                return "NO_SUCH_ATTEMPT"
            if self.now < a["deadline"]:
                return "ATTEMPT_MAY_RUN"
        word = "RECORDED"
        if newest and s["state"] == "UNKNOWN" and not r["status"]:
            word = "ALREADY_RECORDED"
        elif newest and s["state"] == "STARTED" and not r["status"]:
            self._lose(r, s, own=True)
            self._close_if_cancelled(r)
        else:
            self._attach(r, s, a, None)
            current = self._counts_as_newest(r, a) or r["status"]
            word = "LATE" if current else "STALE_LEASE"
        self.facts["state"] = s["state"]
        return word

    def _attach_evidence(self, r: Facts, s: Facts, c: Facts) -> str:
        self.facts["contra"] = False
        if not c["step"]:
            self._note(r["id"], "evidence.attached")
        elif not s or c["attempt"] > len(s["attempts"]):
            self.facts.clear()
            return "NO_SUCH_ATTEMPT" if s else "STEP_NOT_PLANNED"
        elif self.role != "confirm" or c["outcome"] or (c["attempt"], c["kind"]) not in s["vague"]:
            if self.role == "confirm" and not c["outcome"]:
                s["vague"].add((c["attempt"], c["kind"]))
            a = s["attempts"][c["attempt"] - 1] if c["attempt"] else {}
            self.facts["contra"] = self._attach(r, s, a, c["outcome"])
        return "ok"

    def _reconcile(self, r: Facts, s: Facts, c: Facts) -> str:
        decisions, over = s["decisions"], c["supersedes_index"]
        waits = s["state"] == "UNKNOWN" or (s["contra"] and s["state"] in REPORTED)
        decided = s["state"] in ("RECONCILED_EXECUTED", "RECONCILED_NOT_EXECUTED") or waits
        if (over is None and (decisions or not waits)) or not decided:
            return "WRONG_STATE"
        if over is not None and not decisions:
            return "WRONG_STATE"
        if decisions and (decisions[-1][0] != over or self.who in [by for _, by in decisions]):
            return "NOT_SUPERSEDING"
        if c["expected_version"] != s["at"]:
            return "VERSION_MISMATCH"
        executed = c["verdict"] == "executed"
        if s["state"] == "SUCCEEDED" and not executed:
            return "WRONG_STATE"
        last = max((a["deadline"] for a in s["attempts"] if not a["settled"]), default=0)
        if not executed and self.now < last:
            return "TOO_EARLY"
        state = "RECONCILED_EXECUTED" if executed else "RECONCILED_NOT_EXECUTED"
        self._move(r, s, "step.reconciled", "SUCCEEDED" if s["state"] == "SUCCEEDED" else state)
        s["decisions"].append((s["at"], self.who))
        s["contra"] = False
        self._decide_key(r, s, executed=executed, first=len(s["decisions"]) == 1)
        self.facts["state"] = s["state"]
        return "ok"

    def _decide_key(self, r: Facts, s: Facts, *, executed: bool, first: bool) -> None:
        key = self.keys.get((s["tool"], s["key"]))
        if key:
            key["against"] = [at for at in key["against"] if at[1] is not s]
            if key["step"] is not s and executed:
                key["against"].append((r, s))
            elif key["step"] is s and (executed or first):
                key["supersedable"] = not executed


def _named(do: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in do)


def _may(who: Facts, role: str, do: str) -> bool:
    confirms, decides = role == "confirm", do == "Reconcile"
    kind = who["kind"]
    barred = (confirms and kind != "confirmer") or (decides and kind == "runtime")
    return role in who["roles"] and not barred


def _contradicts(s: Facts, a: Facts, outcome: str) -> bool | None:
    if outcome != "SUCCEEDED":
        return s["state"] == "RECONCILED_EXECUTED" or (None if s["decisions"] else False)
    if s["state"] in ("NO_EFFECT", "RECONCILED_NOT_EXECUTED"):
        return True
    if s["state"] == "FAILED":
        return True if s["write"] else None
    return None if a and a["settled"] in ("NO_EFFECT", "FAILED") else False
