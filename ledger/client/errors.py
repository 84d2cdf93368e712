"""What the SDK raises. Each message says what happened, what is safe now, and what to do next.

No message holds a payload, a result, an argument or a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ledger.client.values import Held, Refusal, Replay, Report, UnknownStep
from ledger.client.words import Durability, Reason


class LedgerError(Exception):
    """Anything the SDK raises on purpose."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One fault of a request: the field's path, and what is wrong with it."""

    field: str
    fault: str

    def __str__(self) -> str:
        return f"{self.field}: {self.fault}"


class InvalidRequest(LedgerError):
    """The request breaks a written rule or limit. Nothing was recorded, and no repeat will be."""

    def __init__(self, *violations: Violation) -> None:
        self.violations = violations
        faults = "; ".join(str(violation) for violation in violations) or "no field was named"
        super().__init__(
            f"the request was not accepted ({faults}). Nothing was recorded by it. "
            "Correct the named fields and call again."
        )


class ResultNotStorable(InvalidRequest):
    """The tool ran, but its result cannot be stored as it is.

    Call the outcome method again with a smaller or encodable result (a digest and a pointer, say).
    If the body is left instead, the outcome is recorded with a marker in place of the result.
    """

    def __init__(self, *violations: Violation) -> None:
        super().__init__(*violations)
        faults = "; ".join(str(violation) for violation in violations)
        message = (
            f"{faults}. The outcome is not recorded yet, and the tool must not run again. Report "
            "the same outcome with a result that can be stored, such as a digest and a pointer; "
            "leaving the body records the outcome with a marker in place of the result."
        )
        self.args = (message,)


class NotAuthenticated(LedgerError):
    """The ledger did not accept the credential. Nothing was recorded."""

    def __init__(self, *, detail: str) -> None:
        super().__init__(
            f"the ledger did not accept the credential ({detail}). Nothing was recorded. Check "
            "LEDGER_TOKEN_FILE, or the tokens folder beside the server's data."
        )


class CredentialMissing(LedgerError):
    """No token was given and no token file was found."""


class Refused(LedgerError):
    """The ledger refused, with a permanent reason. Nothing may be executed on the strength of
    it.
    """

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        word = refusal.reason.name
        later = (
            "The identical request may succeed later."
            if refusal.may_succeed_later
            else "The identical request will not succeed later."
        )
        if refusal.reason is Reason.UNSPECIFIED:
            word = refusal.details.get("reason", "for a reason not understood here")
            later = "Update the SDK to understand this reason."
        what = refusal.message or "The ledger gave no further words."
        super().__init__(f"refused, {word.lower()}: {what} {later}")

    @property
    def reason(self) -> Reason:
        """The permanent reason."""
        return self.refusal.reason

    @property
    def may_succeed_later(self) -> bool:
        """Whether the identical request may succeed later."""
        return self.refusal.may_succeed_later


class HeldByAnother(LedgerError):
    """Another live holder drives this run or is in this action. Do not run the tool."""

    def __init__(self, held: Held) -> None:
        self.held = held
        what = f"step {held.step!r} of run {held.run!r}" if held.step else f"run {held.run!r}"
        until = f" until at least {held.until.isoformat()}" if held.until else ""
        super().__init__(
            f"{what} is held by {held.holder or 'another process'!r}{until}. The tool was not run, "
            "and running it now could do the effect twice. Wait and ask again, or stop."
        )


class OutcomeUnknown(LedgerError):
    """An earlier attempt ended without a known outcome. Do not run the tool; a person decides.

    `unknown` carries the very ids that `reconcile` takes.
    """

    def __init__(self, unknown: UnknownStep) -> None:
        self.unknown = unknown
        super().__init__(
            f"nobody can say whether step {unknown.step!r} of run {unknown.run!r} (attempt "
            f"{unknown.attempt}) took effect. The tool was not run again. Stop here and have it "
            f"settled: reconcile run {unknown.run!r}, step {unknown.step!r}, expected_version "
            f"{unknown.expected_version}."
        )


class ReportedLate(LedgerError):
    """The report came too late to settle the step; the ledger kept it as evidence for reviewers."""

    def __init__(self, *, run: str, step: str, report: Report) -> None:
        self.run = run
        self.step = step
        self.report = report
        super().__init__(
            f"the outcome of step {step!r} of run {run!r} came too late "
            f"({report.disposition.name.lower()}) and is kept as evidence; the step stands at "
            f"{report.state.name}. Do not run the tool again; reviewers see the report."
        )


class AuditNotRecorded(LedgerError):
    """A write was done, or may have been, and the ledger did not acknowledge its outcome.

    The run is not reported as successful. `effect.resend()` sends the very same report again.
    """

    def __init__(self, *, run: str, step: str, attempt: int, durability: Durability) -> None:
        self.run = run
        self.step = step
        self.attempt = attempt
        self.durability = durability
        super().__init__(
            f"the outcome of step {step!r} of run {run!r} (attempt {attempt}) is not acknowledged "
            f"({durability.name}). Do not run the tool again. The run stays open and is not "
            "reported as successful; send the same report again with resend(), or resume the run "
            "and have the step settled."
        )


class LedgerUnavailable(LedgerError):
    """No definite answer before the deadline of the retries.

    `durability` speaks of all tries together: after MAYBE_COMMITTED only the same request id is
    safe.
    """

    def __init__(self, *, method: str, durability: Durability, tries: int, detail: str) -> None:
        self.method = method
        self.durability = durability
        self.tries = tries
        self.detail = detail
        safe = (
            "It may have been recorded all the same; only the same request may be sent again."
            if durability is Durability.MAYBE_COMMITTED
            else "Nothing was recorded by it."
        )
        super().__init__(
            f"{method} got no definite answer after {tries} {'try' if tries == 1 else 'tries'} "
            f"({detail}). {safe} Nothing may be executed on the strength of it."
        )


class CallFailed(LedgerError):
    """The call ended with a status that repeating does not cure and that names no reason."""

    def __init__(self, *, method: str, code: str, durability: Durability, detail: str) -> None:
        self.method = method
        self.code = code
        self.durability = durability
        super().__init__(
            f"{method} ended with {code} ({detail}), {durability.name}. Nothing may be executed on "
            "the strength of it. Check that client and server speak the same version."
        )


class HistoryRewound(LedgerError):
    """The log lost or changed what it had acknowledged. Nothing was done, and nothing may be
    executed on its word.

    Found by the server, which then appends nothing more to that log, or by this client, which tells
    with every call the newest entry it was shown and is refused where the log does not hold it:
    `seen_size` is then what it saw and `log_size` what the log has (0: not said). A client goes on
    telling what it saw; only a new one can work on a log whose loss its owner has accepted.
    """

    def __init__(self, *, method: str, detail: str, facts: Mapping[str, str] | None = None) -> None:
        self.method = method
        self.seen_size = _count((facts or {}).get("seen_size", ""))
        self.log_size = _count((facts or {}).get("log_size", ""))
        super().__init__(
            f"{method} was not done: the log is not the one acknowledged before ({detail}). "
            "Run no tool on its word. Keep your receipts and checkpoints and tell the operator."
        )


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0


class DirectiveNotUnderstood(LedgerError):
    """The ledger answered a start with something this version does not know. The body did not
    run.
    """


class DeadlinePassed(LedgerError):
    """EXECUTE came, but its operation deadline was past before the body. The body did not run."""

    def __init__(self, *, run: str, step: str) -> None:
        super().__init__(
            f"permission to run step {step!r} of run {run!r} arrived after its operation deadline. "
            "The tool was not run. Ask again; a longer operation timeout may help."
        )


class DeadlineOverrun(LedgerError, TimeoutError):
    """The body was cancelled at its operation deadline; its outcome is recorded as unknown."""

    def __init__(self, *, run: str, step: str) -> None:
        super().__init__(
            f"the body of step {step!r} of run {run!r} was cancelled at its operation deadline. "
            "Whether the effect happened is unknown, and recorded so. Do not run the tool again."
        )


class OutcomeNotReported(LedgerError):
    """The body ended without saying what came of it, so a write is recorded as unknown."""

    def __init__(self, *, run: str, step: str) -> None:
        super().__init__(
            f"the body of step {step!r} of run {run!r} ended without an outcome. It is recorded as "
            "not known. Call succeeded(), failed() or no_effect() in the body."
        )


class NotExecuting(LedgerError):
    """The directive was not EXECUTE, so there is no key, no token and nothing to report."""

    def __init__(self, replay: Replay | None) -> None:
        self.replay = replay
        super().__init__(
            "this step was settled before, so there is nothing to execute or report. Do not run "
            "the tool; read effect.result, and guard the tool with `if effect.execute:`."
        )


class AlreadyReported(LedgerError):
    """The attempt's outcome was reported before; an attempt has one report."""


class ResultUnavailable(LedgerError):
    """The step is settled, but its stored result cannot be handed out."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        super().__init__(
            f"step {replay.step!r} of run {replay.run!r} is settled ({replay.state.name}) and its "
            f"result is {replay.result.availability.name}. The tool was not run, and must not be."
        )


class ForkedProcess(LedgerError):
    """A run taken by the parent process was used in a forked child. A lease belongs to one
    process.
    """

    def __init__(self) -> None:
        super().__init__(
            "this run was taken by another process (the parent of a fork). Its lease is not usable "
            "here and nothing was sent. Resume the run in this process with client.resume()."
        )


class RunNotDriven(LedgerError):
    """The run was not entered, or was left: there is no lease to drive it with."""

    def __init__(self, run: str) -> None:
        super().__init__(
            f"run {run!r} is not being driven here. Nothing was sent. Use `with client.run(...)` "
            "or `with client.resume(...)`."
        )


class NothingSent(Exception):
    """Raise this from a tool's body to prove that nothing left the process: recorded as
    NO_EFFECT.
    """


class DefinitelyFailed(Exception):
    """Raise this from a tool's body when the outside system says that it definitely failed.

    Recorded as FAILED with `result`. On replay the stored result is raised again in the same form.
    """

    def __init__(self, message: str = "", *, result: object = None) -> None:
        super().__init__(message)
        self.result = result
