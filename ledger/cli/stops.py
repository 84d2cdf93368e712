"""Why a command ends early: what happened, what is safe now, what to do next, and its exit code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ledger.client import (
    CallFailed,
    CredentialMissing,
    HeldByAnother,
    HistoryRewound,
    InvalidRequest,
    LedgerError,
    LedgerUnavailable,
    NotAuthenticated,
    Reason,
    Refused,
)


class Code(IntEnum):
    """Exit codes. 0 to 5 of `ledger verify` are those of the verdicts (docs/formats)."""

    DONE = 0
    BROKE = 1
    WRONG_USAGE = 2
    INCOMPLETE = 3
    UNVERIFIABLE = 4
    FAILED = 5
    REFUSED = 6
    UNAVAILABLE = 7
    NO_CREDENTIAL = 8
    EXTRA_MISSING = 9
    INTERRUPTED = 130


@dataclass(eq=False)
class Stop(Exception):
    """The command did not do what it was asked for."""

    what: str
    safe: str = ""
    next: str = ""
    code: Code = Code.BROKE
    reason: str = ""

    def __str__(self) -> str:
        return self.what

    def as_json(self) -> dict[str, object]:
        """For `--json`; empty members are left out."""
        members: dict[str, object] = {
            "what": self.what,
            "safe_now": self.safe,
            "do_next": self.next,
            "reason": self.reason,
        }
        return {name: text for name, text in members.items() if text} | {"exit": int(self.code)}


_NEXT: Final[dict[Reason, str]] = {
    Reason.ROLE_MISSING: (
        "Use a credential that has the role: --as reviewer, --as admin, --as confirmer or "
        "--token-file FILE."
    ),
    Reason.SELF_RECONCILE: (
        "Let a person decide who did not open, hold, plan or start anything in this run."
    ),
    Reason.TOO_EARLY: "Wait until the time it names; `ledger unknown` shows it for each step.",
    Reason.VERSION_MISMATCH: (
        "Look again with `ledger unknown` and `ledger show RUN`, then decide anew."
    ),
    Reason.PROPOSAL_REQUIRED: (
        "See what was proposed with `ledger unknown`. Confirm another person's proposal with "
        "`ledger reconcile RUN STEP --proposal INDEX`, or make one with `ledger propose RUN STEP`."
    ),
    Reason.OWN_PROPOSAL: (
        "Have another person confirm it: `ledger reconcile RUN STEP --proposal INDEX` with a "
        "credential of that person's own, named by --token-file FILE."
    ),
    Reason.RUN_NOT_FOUND: "List the runs of this tenant with `ledger runs`.",
    Reason.WRONG_STATE: "See where the step stands with `ledger show RUN`.",
}


def stop_of(error: LedgerError) -> Stop:
    """What the SDK raised, as the end of a command. Its message holds all three parts already."""
    what = str(error)
    match error:
        case Refused():
            return Stop(
                what,
                next=_NEXT.get(
                    error.reason, "See what there is with `ledger runs` and `ledger show`."
                ),
                code=Code.REFUSED,
                reason=error.reason.name,
            )
        case HeldByAnother():
            return Stop(what, code=Code.REFUSED, reason="LEASE_HELD")
        case InvalidRequest():
            return Stop(what, code=Code.WRONG_USAGE)
        case CredentialMissing():
            return Stop(
                what,
                next="Name the server's data folder with --data, or a token with --token-file.",
                code=Code.NO_CREDENTIAL,
            )
        case NotAuthenticated():
            return Stop(
                what,
                next="Check that --data and --server belong together.",
                code=Code.NO_CREDENTIAL,
            )
        case HistoryRewound():
            return Stop(what, code=Code.FAILED, reason="HISTORY_REWOUND")
        case LedgerUnavailable():
            return Stop(
                what,
                next=(
                    "Check that the server runs and that --server names it: `ledger health`. "
                    "Start one with `ledger serve --data FOLDER`."
                ),
                code=Code.UNAVAILABLE,
                reason=error.durability.name,
            )
        case CallFailed():
            return Stop(what, code=Code.UNAVAILABLE, reason=error.code)
        case _:
            return Stop(what)


def extra_missing(error: ModuleNotFoundError, *, command: str, extra: str = "server") -> Stop:
    """A command needs a part that the base install leaves out."""
    return Stop(
        f"`ledger {command}` needs the extra `{extra}`, which is not installed here "
        f"(there is no module {error.name!r}).",
        safe="Nothing was started and nothing was written.",
        next=f"python -m pip install 'agent-effects-ledger[{extra}]'",
        code=Code.EXTRA_MISSING,
    )
