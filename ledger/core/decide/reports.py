"""What came of an attempt: completed, unknown, late, contradicting (rules, section 3); evidence."""

from __future__ import annotations

from ledger.core import events
from ledger.core.answers import Answer, Completed, EvidenceAttached, Marked
from ledger.core.commands import AttachEvidence, CompleteStep, MarkUnknown
from ledger.core.decide.guards import close_if_cancelled, run_not_found, unknown_step
from ledger.core.draft import Draft
from ledger.core.refusals import Reason, Refused
from ledger.core.run import Run
from ledger.core.run_events import SealedRef
from ledger.core.step import Attempt, Step, state_after
from ledger.core.times import format_time
from ledger.core.vocabulary import Disposition, Outcome, Role, StepState


def _attempt(
    draft: Draft, run_id: str, step_id: str, *, number: int
) -> tuple[Run, Step, Attempt] | Refused:
    """The attempt a report is about. Neither a closed run nor another's token is a ground for
    refusal: what is reported becomes evidence (ADR 7)."""
    run = draft.run(run_id)
    if run is None:
        return run_not_found(run_id)
    step = draft.step(run, step_id)
    if step is None:
        return Refused(
            Reason.STEP_NOT_PLANNED,
            "The step is not planned in this run. Nothing was recorded.",
            run=run.run_id,
            step=step_id,
        )
    if not 1 <= number <= len(step.attempts):
        return Refused(
            Reason.NO_SUCH_ATTEMPT,
            "The step has no attempt of that number. Nothing was recorded. Report with the attempt "
            "and token that EXECUTE named, or attach what you know as evidence.",
            run=run.run_id,
            step=step_id,
            details={"attempt": str(number), "attempts": str(len(step.attempts))},
        )
    return run, step, step.attempts[number - 1]


def decide_complete(draft: Draft, command: CompleteStep) -> Answer:
    """Settles the attempt, or is kept as evidence of it. Never dropped."""
    found = _attempt(draft, command.run, command.step, number=command.attempt)
    if isinstance(found, Refused):
        return found
    run, step, attempt = found
    if not run.is_closed and _is_repeated(draft, step, attempt, command):
        return Completed(
            Disposition.ALREADY_RECORDED.value,
            step.state.value,
            evidence_recorded=False,
            contradiction=step.contradiction,
            cancel_requested=run.cancel_requested,
        )
    own = command.token == attempt.token
    if own and _settles(run, step, attempt, command.outcome):
        return _settle(draft, run, step, command)
    return _keep_as_evidence(draft, run, step, attempt, command)


def _is_repeated(draft: Draft, step: Step, attempt: Attempt, command: CompleteStep) -> bool:
    """Whether the attempt was settled by an equal report: same outcome, same result bytes."""
    if attempt.settled != command.outcome.value:
        return False
    result = draft.sealed(("result", 0))
    is_newest = attempt is step.attempt
    if result is None or not is_newest:
        return result is None and not (is_newest and step.result_id)
    return draft.is_same_payload(step.result_id, ("result", 0))


def _settles(run: Run, step: Step, attempt: Attempt, outcome: Outcome) -> bool:
    """Whether a report may settle (rules, section 3, late `completed`)."""
    if run.is_closed or run.not_understood:
        return False
    if attempt is not step.attempt or not run.token_counts_as_newest(attempt):
        return False
    if step.state is StepState.STARTED:
        return True
    return step.state is StepState.UNKNOWN and outcome is Outcome.SUCCEEDED and not step.decisions


def _settle(draft: Draft, run: Run, step: Step, command: CompleteStep) -> Answer:
    earlier_unsettled = any(not a.is_settled for a in step.attempts[:-1])
    state = state_after(command.outcome, earlier_unsettled=step.is_write and earlier_unsettled)
    draft.record(
        run,
        events.StepCompleted(
            step=step.id,
            attempt=command.attempt,
            token=command.token,
            outcome=command.outcome,
            state=state,
        ),
        _payloads(draft, ("result", 0), ("external_reference", 0)),
    )
    close_if_cancelled(draft, run)
    return Completed(
        Disposition.RECORDED.value,
        state.value,
        evidence_recorded=False,
        contradiction=step.contradiction,
        cancel_requested=run.cancel_requested,
    )


def _payloads(draft: Draft, *slots: tuple[str, int]) -> list[SealedRef]:
    return [sealed for slot in slots if (sealed := draft.sealed(slot)) is not None]


def _keep_as_evidence(
    draft: Draft, run: Run, step: Step, attempt: Attempt, command: CompleteStep
) -> Answer:
    own = command.token == attempt.token
    newest = run.token_counts_as_newest(attempt) if own else command.token == run.lease.token
    why = Disposition.LATE if newest or run.is_closed else Disposition.STALE_LEASE
    contradiction = _contradicts(step, attempt, command.outcome)
    replayed = _replayed(draft, step) if contradiction else ()
    draft.record(
        run,
        events.EvidenceAttached(
            kind="late_completion",
            step=step.id,
            attempt=command.attempt,
            token=command.token,
            outcome=command.outcome.value,
            why=why.value,
            contradiction=contradiction,
            replayed=replayed,
        ),
        _payloads(draft, ("result", 0), ("external_reference", 0)),
    )
    return Completed(
        why.value,
        step.state.value,
        evidence_recorded=True,
        contradiction=contradiction,
        cancel_requested=run.cancel_requested,
    )


def _replayed(draft: Draft, step: Step) -> tuple[str, ...]:
    """The steps that were answered from the key, at most 32, as run and step in turn."""
    if not step.key:
        return ()
    pairs = draft.replays(tool=step.tool, key=step.key)
    return tuple(name for pair in pairs for name in pair)


def _contradicts(step: Step, attempt: Attempt | None, outcome: Outcome) -> bool:
    """Whether a report contradicts what was settled (rules, section 3)."""
    if outcome is Outcome.SUCCEEDED:
        failed_before = attempt is not None and attempt.settled in (
            Outcome.NO_EFFECT.value,
            Outcome.FAILED.value,
        )
        return (
            (step.is_write and failed_before)
            or step.state
            in (
                StepState.NO_EFFECT,
                StepState.RECONCILED_NOT_EXECUTED,
            )
            or (step.is_write and step.state is StepState.FAILED)
        )
    return step.state is StepState.RECONCILED_EXECUTED


def decide_unknown(draft: Draft, command: MarkUnknown) -> Answer:
    """The attempt's own holder may at any time; the holder of a newer token after the deadline."""
    run = draft.run(command.run)
    if run is None:
        return run_not_found(command.run)
    step = draft.step(run, command.step)
    if step is None or not 1 <= command.attempt <= len(step.attempts):
        return Refused(
            Reason.NO_SUCH_ATTEMPT,
            "No such attempt was started in this run. Nothing was recorded.",
            run=run.run_id,
            step=command.step,
            details={"attempt": str(command.attempt)},
        )
    attempt = step.attempts[command.attempt - 1]
    if command.token != attempt.token:
        refused = _newer_holder(draft, run, step, attempt, command.token)
        if refused is not None:
            return refused
    if run.is_closed or run.not_understood:
        return _late_mark(draft, run, step, attempt, command)
    if attempt is not step.attempt or step.state is not StepState.STARTED:
        return _late_mark(draft, run, step, attempt, command)
    if step.is_write:
        body: events.StepUnknown | events.StepCompleted = events.StepUnknown(
            step=step.id, attempt=attempt.number, token=attempt.token, cause=command.cause
        )
    else:
        body = events.StepCompleted(
            step=step.id,
            attempt=attempt.number,
            token=attempt.token,
            outcome=Outcome.FAILED,
            state=StepState.FAILED,
            cause=command.cause,
        )
    draft.record(run, body, _payloads(draft, ("note", 0)))
    close_if_cancelled(draft, run)
    return _marked(draft, run, step, Disposition.RECORDED)


def _newer_holder(
    draft: Draft, run: Run, step: Step, attempt: Attempt, token: int
) -> Refused | None:
    lease = run.lease
    if token < attempt.token or token != lease.token or not lease.is_live(draft.now_us):
        return Refused(
            Reason.NO_SUCH_ATTEMPT,
            "The attempt was started under another token. Nothing was recorded.",
            run=run.run_id,
            step=step.id,
            details={"attempt": str(attempt.number)},
        )
    if draft.now_us < attempt.deadline_us:
        return Refused(
            Reason.ATTEMPT_MAY_RUN,
            "The attempt of an earlier holder may still be running. Nothing was recorded. Ask "
            "again after its operation deadline.",
            run=run.run_id,
            step=step.id,
            details={"deadline": format_time(attempt.deadline_us)},
        )
    return None


def _late_mark(
    draft: Draft, run: Run, step: Step, attempt: Attempt, command: MarkUnknown
) -> Answer:
    """UNKNOWN already: nothing to add. Settled: kept as evidence, changes nothing."""
    if step.state is StepState.UNKNOWN and not run.is_closed and attempt is step.attempt:
        return _marked(draft, run, step, Disposition.ALREADY_RECORDED)
    newest = run.token_counts_as_newest(attempt)
    why = Disposition.LATE if newest or run.is_closed else Disposition.STALE_LEASE
    draft.record(
        run,
        events.EvidenceAttached(
            kind="late_unknown",
            step=step.id,
            attempt=command.attempt,
            token=command.token,
            why=why.value,
        ),
        _payloads(draft, ("note", 0)),
    )
    return _marked(draft, run, step, why)


def _marked(draft: Draft, run: Run, step: Step, disposition: Disposition) -> Marked:
    return Marked(
        disposition.value,
        step.state.value,
        unknown_step(draft, run, step) if step.state is StepState.UNKNOWN else None,
        run.cancel_requested,
    )


def decide_evidence(draft: Draft, command: AttachEvidence) -> Answer:
    """Facts change no state. Allowed in a closed run; the token is recorded, never judged.

    An inconclusive answer of a confirmer is recorded once per attempt and kind.
    """
    run = draft.run(command.run)
    if run is None:
        return run_not_found(command.run)
    contradiction = False
    replayed: tuple[str, ...] = ()
    if command.step:
        step = draft.step(run, command.step)
        if step is None or command.attempt > len(step.attempts):
            return Refused(
                Reason.STEP_NOT_PLANNED if step is None else Reason.NO_SUCH_ATTEMPT,
                "There is no such step or attempt in this run. Nothing was recorded.",
                run=run.run_id,
                step=command.step,
            )
        if command.outcome is not None:
            attempt = step.attempts[command.attempt - 1] if command.attempt else None
            contradiction = _contradicts(step, attempt, command.outcome)
            replayed = _replayed(draft, step) if contradiction else ()
        elif draft.role is Role.CONFIRM and (command.attempt, command.kind) in step.inconclusive:
            return EvidenceAttached(contradiction=False)
    draft.record(
        run,
        events.EvidenceAttached(
            kind=command.kind,
            step=command.step,
            attempt=command.attempt,
            token=command.token,
            outcome=command.outcome.value if command.outcome else "",
            dropped=command.dropped,
            contradiction=contradiction,
            replayed=replayed,
        ),
        _payloads(draft, *(("evidence", at) for at in range(len(command.evidence)))),
    )
    return EvidenceAttached(contradiction)
