"""Rules, section 4: the order of StartStep's checks, repeats of it, and what `after` waits for."""

from __future__ import annotations

import pytest

from ledger.core.answers import Execute, Held
from ledger.core.commands import StartStep
from ledger.core.ids import ProcessNonce, StepId, ToolVersion
from ledger.core.vocabulary import Outcome, RunStatus, Verdict
from tests.contract.test_attempts import settle
from tests.support.driving import (
    IDEMPOTENT,
    NON_IDEMPOTENT,
    READ_ONLY,
    Driver,
    another,
    driven,
    refusal,
    said,
)
from tests.support.in_process import P1, P2, REVIEWER_2, LedgerInProcess

NO_EFFECT, FAILED, SUCCEEDED = Outcome.NO_EFFECT, Outcome.FAILED, Outcome.SUCCEEDED


def _start(
    driver: Driver,
    step: str,
    *,
    token: int | None = None,
    process: ProcessNonce = P1,
    version: str = "1",
) -> str:
    given = driver.token if token is None else token
    return said(
        driver.ask(StartStep(driver.run, StepId(step), given, process, ToolVersion(version)))
    )


# For each two neighbours of the order: both would hit, and the earlier one answers.


def test_a_reused_request_id_answers_before_a_closed_run(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.plan("s")
    driver.plan("t")
    request = ledger.request(driver.start_command("s"))
    ledger.send(request)
    driver.complete("s")
    driver.close()
    other = ledger.request(driver.start_command("t"), under=request.id)
    assert said(ledger.send(other).answer) == "REQUEST_REUSED"
    assert said(ledger.send(request).answer) == "RUN_CLOSED"


def test_a_closed_run_answers_before_a_stale_token(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.close()
    assert _start(driver, "s", token=7) == "RUN_CLOSED"


def test_token_answers_before_nonce_and_nonce_before_expiry(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    ledger.clock.advance(31)
    assert _start(driver, "s", token=7, process=P2) == "STALE_LEASE"
    assert _start(driver, "s", process=P2) == "LEASE_OF_ANOTHER_PROCESS"
    assert _start(driver, "s") == "LEASE_EXPIRED"


def test_the_lease_answers_before_a_step_that_is_not_there(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    assert _start(driver, "nowhere", token=7) == "STALE_LEASE"
    assert _start(driver, "nowhere") == "STEP_NOT_PLANNED"


def test_a_withdrawn_step_answers_before_its_tool_version(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.plan("s")
    driver.withdraw("s")
    assert _start(driver, "s", version="2") == "STEP_WITHDRAWN"


def test_the_tool_version_answers_before_the_own_state(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.ended("s")
    assert _start(driver, "s", version="2") == "TOOL_VERSION_MISMATCH"
    assert _start(driver, "s") == "REPLAY_SUCCEEDED"


def test_the_own_state_answers_before_a_cancel(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.ended("s")
    driver.plan("t")
    driver.cancel()
    assert _start(driver, "s") == "REPLAY_SUCCEEDED"
    assert _start(driver, "t") == "CANCELLED"


def test_a_cancel_answers_before_a_key_conflict(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.ended("s", key="k", arguments=b"1")
    driver.plan("t", key="k", arguments=b"2")
    assert _start(driver, "t") == "KEY_CONFLICT"
    driver.cancel()
    assert _start(driver, "t") == "CANCELLED"


@pytest.mark.parametrize(
    "state",
    ["STARTED", "SUCCEEDED", "FAILED", "NO_EFFECT", "UNKNOWN", "RECONCILED_EXECUTED", "ABANDONED"],
)
def test_other_arguments_answer_before_the_state_of_the_key(
    ledger: LedgerInProcess, state: str
) -> None:
    one, two = driven(ledger, "run-1", ttl_s=600), driven(ledger, "run-2", ttl_s=600)
    settle(one, "RECONCILED_NOT_EXECUTED" if state == "ABANDONED" else state)
    two.plan("s", key="k", arguments=b'{"other":1}')
    refused = refusal(two.start("s"))
    assert (refused.reason.name, refused.may_succeed_later) == ("KEY_CONFLICT", False)
    assert "{}" not in refused.message


def test_the_state_of_the_key_answers_before_a_look_alike(ledger: LedgerInProcess) -> None:
    one, two = driven(ledger, "run-1"), driven(ledger, "run-2")
    one.ended("s", key="k", arguments=b"{}")
    two.left_unknown("t", arguments=b"{}")
    two.plan("u", key="k", arguments=b"{}")
    assert _start(two, "u") == "REPLAY_SUCCEEDED"


def test_a_look_alike_answers_before_what_a_step_supersedes(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.left_unknown("s", arguments=b"{}")
    driver.plan("t", arguments=b"{}", supersedes="never-claimed")
    driver.plan("u", supersedes="never-claimed")
    assert _start(driver, "t") == "UNKNOWN"
    assert _start(driver, "u") == "NOT_SUPERSEDABLE"


def test_what_a_step_supersedes_answers_before_what_it_waits_for(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.plan("first")
    driver.plan("s", supersedes="never-claimed", after=["first"])
    driver.plan("t", after=["first"])
    assert _start(driver, "s") == "NOT_SUPERSEDABLE"
    assert _start(driver, "t") == "WAITING"


# The own state


def test_a_started_step_answers_held_and_names_the_own_attempt(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    execute = driver.started("s")
    answer = driver.start("s")
    assert isinstance(answer, Held)
    assert (answer.attempt, answer.token, answer.holder) == (1, driver.token, "host-1")
    assert answer.until_us >= execute.deadline_us


def test_an_unknown_write_starts_again_only_if_it_is_idempotent(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.left_unknown("once", effect=NON_IDEMPOTENT, tool="send")
    driver.left_unknown("again", effect=IDEMPOTENT, tool="put")
    assert _start(driver, "once") == "UNKNOWN"
    answer = driver.start("again")
    assert isinstance(answer, Execute)
    assert (answer.attempt, answer.key) == (2, ledger.step("run-1", "again").key)


@pytest.mark.parametrize("outcome", [FAILED, NO_EFFECT])
def test_a_step_without_effects_that_failed_starts_again(
    ledger: LedgerInProcess, outcome: Outcome
) -> None:
    driver = driven(ledger)
    driver.ended("s", outcome, effect=READ_ONLY)
    assert _start(driver, "s") == "EXECUTE"


def test_a_write_that_failed_never_starts_again(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.ended("s", FAILED)
    assert _start(driver, "s") == "REPLAY_FAILED"


def test_a_write_without_effect_starts_again_under_the_same_key(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.ended("s", NO_EFFECT)
    answer = driver.start("s")
    assert isinstance(answer, Execute)
    assert answer.attempt == 2


def test_an_agent_that_asks_again_under_a_new_name_is_told_of_its_earlier_try(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("s", arguments=b'{"amount":1}', version="1")
    driver.plan("t", arguments=b'{"amount":1}', version="2", key="another-key")
    answer = driver.start("t", version="2")
    assert isinstance(answer, Held)
    assert answer.step == "s"
    driver.unknown("s")
    assert said(driver.start("t", version="2")) == "UNKNOWN"


def test_equal_steps_without_effects_do_not_stand_in_each_others_way(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("s", arguments=b"{}", effect=READ_ONLY, tool="look-up")
    driver.plan("t", arguments=b"{}", tool="look-up")
    assert _start(driver, "t") == "EXECUTE"


# Repeats


def test_a_repeated_start_repeats_execute_while_the_attempt_may_run(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.plan("s")
    request = ledger.request(driver.start_command("s"))
    first = ledger.send(request)
    ledger.clock.advance(50)
    again = ledger.send(request)
    assert isinstance(first.answer, Execute)
    assert isinstance(again.answer, Execute)
    assert (first.answer.replayed, again.answer.replayed) == (False, True)
    assert (again.answer.attempt, again.answer.deadline_us) == (1, first.answer.deadline_us)
    assert first.append is not None
    assert again.append is not None
    assert (again.append.index, again.append.leaf) == (first.append.index, first.append.leaf)


def test_a_repeated_start_is_answered_by_the_present_state_when_it_may_not_run(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.plan("s")
    request = ledger.request(driver.start_command("s"))
    ledger.send(request)
    forked = StartStep(driver.run, StepId("s"), driver.token, P2, ToolVersion("1"))
    other_process = ledger.request(forked, under=request.id)
    assert said(ledger.send(other_process).answer) == "LEASE_OF_ANOTHER_PROCESS"
    ledger.clock.advance(61)
    assert said(ledger.send(request).answer) == "HELD"
    ledger.clock.advance(10)
    assert said(ledger.send(request).answer) == "UNKNOWN"
    driver.decide("s")
    assert said(ledger.send(request).answer) == "REPLAY_SUCCEEDED"
    assert ledger.types("run-1").count("step.started") == 1


def test_a_repeated_start_is_not_repeated_under_a_newer_token(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.plan("s")
    request = ledger.request(driver.start_command("s", operation_s=600))
    ledger.send(request)
    ledger.clock.advance(31)
    driver.acquire()
    assert said(ledger.send(request).answer) == "STALE_LEASE"


def test_one_request_id_starts_at_most_one_attempt(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.plan("s")
    request = ledger.request(driver.start_command("s"))
    ledger.send(request)
    driver.complete("s", NO_EFFECT)
    before = ledger.types()
    answered = ledger.send(request)
    assert (said(answered.answer), answered.append) == ("START_ALREADY_USED", None)
    assert ledger.types() == before
    assert _start(driver, "s") == "EXECUTE"
    assert said(ledger.send(request).answer) == "HELD"


def test_a_start_that_was_answered_without_an_entry_is_decided_anew(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.plan("first")
    driver.plan("s", after=["first"])
    request = ledger.request(driver.start_command("s"))
    assert said(ledger.send(request).answer) == "WAITING"
    driver.start("first")
    driver.complete("first")
    assert said(ledger.send(request).answer) == "EXECUTE"


# After


def test_a_step_waits_until_what_it_names_is_settled_well(ledger: LedgerInProcess) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.plan("first")
    driver.plan("s", after=["first"])
    refused = refusal(driver.start("s"))
    assert (refused.reason.name, refused.step) == ("WAITING", "first")
    assert refused.may_succeed_later
    driver.start("first", operation_s=1)
    assert _start(driver, "s") == "WAITING"
    driver.complete("first", NO_EFFECT)
    assert _start(driver, "s") == "WAITING"
    driver.start("first", operation_s=1)
    driver.unknown("first", attempt=2)
    assert _start(driver, "s") == "WAITING"
    driver.decide("first", Verdict.EXECUTED)
    assert _start(driver, "s") == "EXECUTE"


def test_a_step_waits_for_a_look_up_that_failed(ledger: LedgerInProcess) -> None:
    driver = driven(ledger)
    driver.ended("first", FAILED, effect=READ_ONLY, tool="look-up")
    driver.plan("s", after=["first"])
    assert _start(driver, "s") == "WAITING"
    driver.start("first")
    driver.complete("first", attempt=2)
    assert _start(driver, "s") == "EXECUTE"


@pytest.mark.parametrize("ended", ["withdrawn", "failed"])
def test_a_step_whose_predecessor_ended_is_to_be_planned_anew(
    ledger: LedgerInProcess, ended: str
) -> None:
    driver = driven(ledger)
    if ended == "failed":
        driver.ended("first", FAILED)
    else:
        driver.plan("first")
        driver.withdraw("first")
    driver.plan("s", after=["first"])
    refused = refusal(driver.start("s"))
    assert (refused.reason.name, refused.may_succeed_later) == ("PREDECESSOR_ENDED", False)
    assert said(driver.withdraw("s")) == "ok"


def test_a_predecessor_is_satisfied_by_the_end_of_its_chain_of_supersessions(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.abandoned("a", key="k1")
    driver.plan("s", after=["a"])
    assert _start(driver, "s") == "WAITING"
    driver.started("b", key="k2", supersedes="k1")
    assert _start(driver, "s") == "WAITING"
    driver.complete("b", FAILED)
    assert _start(driver, "s") == "PREDECESSOR_ENDED"
    driver.started("c", key="k3", supersedes="k2")
    assert _start(driver, "s") == "WAITING"
    driver.complete("c")
    assert _start(driver, "s") == "EXECUTE"


def test_a_step_waits_while_a_contradiction_hangs_over_its_predecessor(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger, ttl_s=600)
    driver.left_unknown("first")
    driver.decide("first", Verdict.EXECUTED)
    driver.plan("s", after=["first"])
    driver.complete("first", FAILED)
    assert _start(driver, "s") == "WAITING"
    decided = ledger.step("run-1", "first").decisions[-1].index
    driver.decide("first", Verdict.EXECUTED, by=REVIEWER_2, supersedes=decided)
    assert _start(driver, "s") == "EXECUTE"


def test_a_cancelled_run_starts_nothing_and_its_step_in_flight_may_finish(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("s")
    driver.plan("t")
    driver.cancel()
    refused = refusal(driver.start("t"))
    assert (refused.reason.name, refused.may_succeed_later) == ("CANCELLED", False)
    assert said(driver.complete("s")) == "RECORDED"
    assert said(driver.close(RunStatus.CANCELLED)) == "ok"


def test_a_look_up_of_the_key_on_another_replica_sees_what_was_just_started(
    ledger: LedgerInProcess,
) -> None:
    ledger.replica()
    one, two = driven(ledger, "run-1"), driven(ledger, "run-2")
    two.plan("s", key="k", arguments=b"{}")
    two.at = 1
    assert said(two.renew()) == "ok"
    one.started("s", key="k", arguments=b"{}")
    assert said(two.start("s")) == "HELD"
    one.complete("s")
    assert said(two.start("s")) == "REPLAY_SUCCEEDED"
    assert another(one, P2).token == 0
