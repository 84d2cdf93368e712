"""Runs, effects and directives through the SDK, on a real server."""

from __future__ import annotations

import os

import pytest

from ledger.client import (
    AlreadyReported,
    AuditNotRecorded,
    DefinitelyFailed,
    EffectClass,
    ForkedProcess,
    HeldByAnother,
    InvalidRequest,
    Ledger,
    LedgerError,
    LedgerUnavailable,
    Limits,
    NotAuthenticated,
    NotExecuting,
    NothingSent,
    OutcomeUnknown,
    Payload,
    Reason,
    Refused,
    ResultNotStorable,
    RunStatus,
    Settings,
    Step,
    StepState,
    Verdict,
)
from ledger.client.payloads import OMITTED_TYPE
from ledger.client.sync_run import Effect, Run
from tests.e2e.sdk.agent import PAY, keyed
from tests.e2e.sdk.conftest import Place


def pay(run: Run, step: Step, calls: list[str]) -> object:
    """Do one payment under a step, as a body without a decorator does."""
    run.plan([step])
    with run.effect(step.step) as effect:
        if effect.execute:
            calls.append(effect.key)
            effect.succeeded({"paid": 12})
        return effect.result


def break_off(client: Ledger, run_id: str, error: BaseException) -> None:
    """Drive a run into its payment and leave the body by an exception."""
    with client.run(run_id, holder="shop") as run:
        run.plan([PAY])
        with run.effect("s1"):
            raise error


def run_again(client: Ledger, run_id: str, *, wait_s: float = 0.0) -> None:
    """Resume a run and ask for its payment once more; the tool must not run."""
    with client.resume(run_id, holder="heir", wait_s=wait_s) as run, run.effect("s1"):
        raise AssertionError("the tool was run again")


def test_a_run_is_planned_started_reported_and_closed_completed(place: Place) -> None:
    calls: list[str] = []
    with place.client().run(place.r1, holder="shop", labels={"shop": "a"}) as run:
        pay(run, PAY, calls)
    assert len(calls) == 1
    assert calls[0].startswith("d:")
    assert place.types(place.r1) == [
        "run.opened",
        "lease.acquired",
        "step.planned",
        "step.started",
        "step.completed",
        "run.closed",
    ]
    assert place.client("reviewer").get_run(place.r1).run.status is RunStatus.COMPLETED


def test_a_settled_key_is_replayed_in_another_run_and_the_tool_is_not_called(place: Place) -> None:
    calls: list[str] = []
    client = place.client()
    for name in (place.r1, place.r2):
        with client.run(name, holder="shop") as run:
            pay(run, keyed(place.key), calls)
    assert calls == [place.key]


def test_a_body_without_a_guard_stops_at_its_key_on_a_replay(place: Place) -> None:
    calls: list[str] = []
    with place.client().run(place.r1, holder="shop") as run:
        pay(run, PAY, calls)
        with pytest.raises(NotExecuting), run.effect("s1") as effect:
            calls.append(effect.key)
    assert len(calls) == 1


def test_a_tool_runs_once_and_gives_its_stored_result_ever_after(place: Place) -> None:
    calls: list[int] = []

    def driven(run: Run) -> object:
        @run.tool(version="1", effect_class=EffectClass.IDEMPOTENT_WRITE)
        def refund(effect: Effect, order: int, *, amount: float = 1.5) -> object:
            calls.append(effect.attempt)
            return {"order": order, "amount": amount, "note": None}

        return refund("s1", 4711)

    client = place.client()
    with client.run(place.r1, holder="shop") as run:
        first = driven(run)
        assert driven(run) == first == {"order": 4711, "amount": 1.5, "note": None}
        run.stop("waiting")
    with client.resume(place.r1, holder="shop") as run:
        assert driven(run) == first
    assert calls == [1]


def test_a_failed_tool_fails_again_the_same_way_without_being_called(place: Place) -> None:
    calls: list[str] = []

    def declined(effect: Effect) -> object:
        calls.append(effect.key)
        raise DefinitelyFailed("declined", result={"code": 51})

    with place.client().run(place.r1, holder="shop") as run:
        run.plan([PAY])
        for _ in range(2):
            with pytest.raises(DefinitelyFailed) as caught:
                run.perform("s1", declined)
            assert caught.value.result == {"code": 51}
    assert len(calls) == 1


def test_what_proves_that_nothing_was_sent_can_be_started_again(place: Place) -> None:
    with place.client().run(place.r1, holder="shop") as run:
        run.plan([PAY])
        with pytest.raises(NothingSent), run.effect("s1"):
            raise NothingSent
        with (
            pytest.raises(ConnectionRefusedError),
            run.effect("s1", nothing_sent=(ConnectionRefusedError,)),
        ):
            raise ConnectionRefusedError
        with run.effect("s1") as effect:
            assert effect.attempt == 3
            effect.succeeded()


def test_an_exception_leaves_a_write_unknown_and_the_run_open(place: Place) -> None:
    client = place.client()
    with pytest.raises(ValueError, match="boom"):
        break_off(client, place.r1, ValueError("boom"))
    (unknown,) = place.client("reviewer").unknowns(run=place.r1)
    assert (unknown.run, unknown.step, unknown.cause) == (place.r1, "s1", "exception")
    assert place.types(place.r1)[-2:] == ["step.unknown", "lease.released"]
    with pytest.raises(OutcomeUnknown) as caught:
        run_again(client, place.r1)
    assert caught.value.unknown.expected_version == unknown.expected_version


def test_an_interrupted_write_is_unknown_too(place: Place) -> None:
    with pytest.raises(KeyboardInterrupt):
        break_off(place.client(), place.r1, KeyboardInterrupt())
    assert [unknown.step for unknown in place.client("reviewer").unknowns(run=place.r1)] == ["s1"]


def test_a_failed_read_is_no_unknown_and_may_be_started_again(place: Place) -> None:
    read = Step("s1", "look", "1", effect_class=EffectClass.READ_ONLY)
    with place.client().run(place.r1, holder="shop") as run:
        run.plan([read])
        with pytest.raises(ValueError, match="boom"), run.effect("s1"):
            raise ValueError("boom")
        with run.effect("s1") as effect:
            assert (effect.key, effect.attempt) == ("", 2)
            effect.succeeded([1, 2])
    assert not list(place.client("reviewer").unknowns(run=place.r1))


def test_an_unknown_is_settled_by_a_reviewer_and_replayed_to_the_agent(place: Place) -> None:
    client, reviewer = place.client(), place.client("reviewer")
    with pytest.raises(ValueError, match="boom"):
        break_off(client, place.r1, ValueError("boom"))
    (unknown,) = reviewer.unknowns(run=place.r1)
    with pytest.raises(Refused) as early:
        reviewer.reconcile(unknown, Verdict.NOT_EXECUTED, reason_code="not_found")
    assert early.value.reason is Reason.TOO_EARLY
    assert early.value.may_succeed_later
    settled = reviewer.reconcile(
        unknown,
        Verdict.EXECUTED,
        reason_code="receipt_found",
        reason="The shop's books show it.",
        evidence=[{"receipt": "rc-77"}],
    )
    assert settled.state is StepState.RECONCILED_EXECUTED
    with client.resume(place.r1, holder="shop") as run, run.effect("s1") as effect:
        assert not effect.execute
    assert not list(reviewer.unknowns(run=place.r1))


def test_the_agent_itself_may_not_decide(place: Place) -> None:
    client = place.client()
    with pytest.raises(ValueError, match="boom"):
        break_off(client, place.r1, ValueError("boom"))
    (unknown,) = place.client("reviewer").unknowns(run=place.r1)
    with pytest.raises(Refused) as caught:
        client.reconcile(unknown, Verdict.EXECUTED, reason_code="i_say_so")
    assert caught.value.reason is Reason.ROLE_MISSING


def test_a_second_driver_is_told_who_holds_the_run(place: Place) -> None:
    agent = place.agent("drive", place.r1)
    assert agent.says() == "driving"
    with pytest.raises(HeldByAnother, match="held-agent") as caught:
        place.client().resume(place.r1, holder="second").__enter__()
    assert caught.value.held.until is not None
    agent.go_on()
    assert agent.says() == "closed"
    assert place.types(place.r1).count("lease.acquired") == 1


def test_a_dead_agents_write_is_unknown_to_its_heir(place: Place) -> None:
    agent = place.agent("hold", place.r1)
    assert agent.says().startswith("started d:")
    agent.kill()
    with pytest.raises(OutcomeUnknown) as caught:
        run_again(place.client(), place.r1, wait_s=30)
    assert (caught.value.unknown.run, caught.value.unknown.step) == (place.r1, "s1")
    assert place.types(place.r1)[-4:] == [
        "lease.expired",
        "step.unknown",
        "lease.acquired",
        "lease.released",
    ]


def test_a_key_in_the_hands_of_a_live_holder_is_held(place: Place) -> None:
    agent = place.agent("hold_keyed", place.r1)
    assert agent.says() == f"started {place.key}"
    client = place.client()
    with client.run(place.r2, holder="second") as run:
        run.plan([keyed(place.key)])
        with pytest.raises(HeldByAnother, match="held-agent"):
            run.effect("s1").__enter__()
        agent.go_on()
        assert agent.says() == "closed"
        with run.effect("s1") as effect:
            assert not effect.execute


def test_a_run_is_resumed_with_exact_bytes_and_ready_steps_in_order(place: Place) -> None:
    client = place.client()
    steps = [
        Step("s1", "pay", "1", Payload(b'{"amount": 12.50}', "application/json")),
        Step("s2", "mail", "3", {"to": "c-1"}, after=("s1",)),
        Step("s3", "note", "1", {"n": 1}, after=("s2",)),
    ]
    with client.run(place.r1, holder="shop") as run:
        run.plan(steps)
        with run.effect("s1") as effect:
            effect.succeeded("done")
        run.stop("redeployed")
    done: list[tuple[str, bytes]] = []
    with client.resume(place.r1, holder="shop") as run:
        state = run.resumed
        assert state is not None
        assert [step.step for step in state.settled] == ["s1"]
        assert state.settled[0].arguments.content == b'{"amount": 12.50}'
        assert state.settled[0].result.json() == "done"
        assert [(step.step, step.waiting_for) for step in state.waiting] == [("s3", "s2")]
        for step in run.ready_steps():
            with run.effect(step.step) as effect:
                done.append((step.step, step.arguments.content))
                effect.succeeded()
    assert done == [("s2", b'{"to":"c-1"}'), ("s3", b'{"n":1}')]


def test_planning_equal_steps_again_appends_nothing_and_other_content_is_refused(
    place: Place,
) -> None:
    with place.client().run(place.r1, holder="shop") as run:
        first = run.plan([PAY])
        again = run.plan([PAY])
        assert first.append is not None
        assert again.append is None
        assert again.keys == first.keys
        with pytest.raises(Refused) as caught:
            run.plan([Step("s1", tool="pay", version="1", arguments={"amount": 13})])
        assert caught.value.reason is Reason.PLAN_MISMATCH


def test_a_cancelled_run_starts_nothing_more(place: Place) -> None:
    with place.client().run(place.r1, holder="shop") as run:
        run.plan([PAY])
        place.client("admin").request_cancel(place.r1, reason="customer_called")
        with pytest.raises(Refused) as caught, run.effect("s1"):
            raise AssertionError("the tool was run")
        assert caught.value.reason is Reason.CANCELLED
        assert run.cancel_requested


def test_a_lease_that_an_admin_broke_drives_no_more(place: Place) -> None:
    with place.client().run(place.r1, holder="shop") as run:
        run.plan([PAY])
        place.client("admin").break_lease(place.r1, reason="stuck")
        with pytest.raises(Refused) as caught:
            run.effect("s1").__enter__()
        assert caught.value.reason in (Reason.LEASE_EXPIRED, Reason.STALE_LEASE)
        assert run.stop("broken").append is None


def test_a_result_above_the_servers_limit_never_loses_the_outcome(place: Place) -> None:
    generous = Settings(limits=Limits(payload_bytes_max=4 << 20))
    client = Ledger.connect(
        place.server.address, token_file=place.token_file("runtime"), settings=generous
    )
    with client, client.run(place.r1, holder="shop") as run:
        run.plan([PAY])
        with pytest.raises(ResultNotStorable, match="result"), run.effect("s1") as effect:
            effect.succeeded("x" * (2 << 20))
        with run.effect("s1") as effect:
            assert effect.result is not None
            assert effect.result.media_type == OMITTED_TYPE


def test_a_fault_that_only_the_server_sees_names_its_field(place: Place) -> None:
    generous = Settings(limits=Limits(steps_max=2_000))
    client = Ledger.connect(
        place.server.address, token_file=place.token_file("runtime"), settings=generous
    )
    with client, client.run(place.r1, holder="shop") as run:
        with pytest.raises(InvalidRequest) as caught:
            run.plan([Step(f"s{n}", "pay", "1") for n in range(1_001)])
        assert caught.value.violations[0].field == "steps"


def test_a_wrong_token_is_not_authenticated(place: Place) -> None:
    stranger = Ledger.connect(place.server.address, token="wrong")
    with stranger, pytest.raises(NotAuthenticated, match="LEDGER_TOKEN_FILE"):
        list(stranger.runs())


def test_an_attempt_is_reported_once(place: Place) -> None:
    with place.client().run(place.r1, holder="shop") as run:
        run.plan([PAY])
        with run.effect("s1") as effect:
            effect.succeeded(1)
            with pytest.raises(AlreadyReported):
                effect.failed()


def in_a_child(client: Ledger, run: Run, own_run: str) -> str:
    """What a forked child gets from its parent's run, and from the client for a run of its own."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = []
        try:
            run.plan([PAY])
        except ForkedProcess:
            said.append("the parent's lease is not mine")
        try:
            with client.run(own_run, holder="child") as own:
                own.plan([PAY])
                said.append("a run of my own")
        except LedgerError as error:
            said.append(repr(error))
        finally:
            os.write(writing, ", ".join(said).encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said_by_child = answer.read().decode()
    os.waitpid(pid, 0)
    return said_by_child


def test_a_forked_child_drives_its_own_run_over_a_new_channel(place: Place) -> None:
    """GRL-03."""
    client = place.client(deadline_s=10)
    with client.run(place.r1, holder="parent") as run:
        run.plan([PAY])
        said = in_a_child(client, run, place.r2)
        with run.effect("s1") as effect:
            effect.succeeded()
    assert said == "the parent's lease is not mine, a run of my own"
    assert place.client("reviewer").get_run(place.r2).run.status is RunStatus.COMPLETED


def test_without_a_server_no_tool_runs(own_place: Place) -> None:
    with own_place.client(deadline_s=3).run(own_place.r1, holder="shop") as run:
        run.plan([PAY])
        own_place.server.kill()
        with pytest.raises(LedgerUnavailable, match="Nothing may be executed"):
            run.effect("s1").__enter__()
        own_place.server.start()
        with run.effect("s1") as effect:
            effect.succeeded()


def test_the_first_calls_after_a_restart_find_the_server(own_place: Place) -> None:
    """GRL-03."""
    with own_place.client().run(own_place.r1, holder="shop") as run:
        run.plan([PAY])
        own_place.server.kill()
        own_place.server.start()
        with run.effect("s1") as effect:
            own_place.server.stop()
            own_place.server.start()
            effect.succeeded("once")
    assert own_place.types(own_place.r1).count("step.completed") == 1


def lose_the_report(place: Place, client: Ledger) -> None:
    """Drive run r1 with an agent that swallows the error of a report that nobody acknowledged."""
    with client.run(place.r1, holder="shop") as run:
        run.plan([PAY])
        with run.effect("s1") as effect:
            place.server.kill()
            with pytest.raises(AuditNotRecorded):
                effect.succeeded("done")
        place.server.start()


def test_an_outcome_that_is_not_acknowledged_keeps_the_run_open(own_place: Place) -> None:
    """ACK-04."""
    with pytest.raises(AuditNotRecorded):
        lose_the_report(own_place, own_place.client(deadline_s=3))
    assert own_place.types(own_place.r1)[-2:] == ["lease.released", "step.unknown"]


def test_the_same_report_is_sent_again_and_the_run_completes(own_place: Place) -> None:
    with own_place.client(deadline_s=3).run(own_place.r1, holder="shop") as run:
        run.plan([PAY])
        with run.effect("s1") as effect:
            own_place.server.kill()
            with pytest.raises(AuditNotRecorded):
                effect.succeeded("done")
            own_place.server.start()
            assert effect.resend().state is StepState.SUCCEEDED
    assert own_place.client("reviewer").get_run(own_place.r1).run.status is RunStatus.COMPLETED


def test_dropped_reads_are_counted_in_the_record(own_place: Place) -> None:
    read = Step("s0", "look", "1", effect_class=EffectClass.READ_ONLY)
    seen: list[int] = []
    with own_place.client(deadline_s=10).run(own_place.r1, holder="shop", ttl_s=60) as run:
        run.plan([read])
        own_place.server.kill()
        with run.effect("s0", best_effort=True) as effect:
            seen.append(effect.attempt)
            effect.succeeded()
        assert run.dropped == 2
        own_place.server.start()
        run.plan([PAY])
        assert run.dropped == 0
    gaps = [e["body"] for e in own_place.events(own_place.r1) if e["type"] == "evidence.attached"]
    assert [(gap["kind"], gap["dropped"]) for gap in gaps] == [("gap", 2)]
    assert seen == [0]
