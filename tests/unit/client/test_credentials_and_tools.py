"""Where the token comes from, what it is sent over, and how a function becomes a planned step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import grpc
import pytest

from ledger.client import requests, review_requests
from ledger.client.calls import Command, submit
from ledger.client.credentials import Tls, TokenFile, endpoint, find_token_file, is_loopback
from ledger.client.errors import CredentialMissing, InvalidRequest, LedgerError, Refused
from ledger.client.failures import DOMAIN
from ledger.client.payloads import Payload
from ledger.client.process import Process
from ledger.client.requests import Driving, Step
from ledger.client.tool import ToolOptions, declare
from ledger.client.values import Opened, Planned
from ledger.client.words import EffectClass, Outcome, Reason, RunStatus, Verdict
from ledger.v1 import run_service_pb2 as runs
from tests.unit.client.scripted import Wire, append
from tests.unit.client.test_retry import info, status_of

MESSAGE_MAX = 8 << 20


@pytest.mark.parametrize(
    "target",
    [
        "127.0.0.1:7420",
        "127.8.9.1:1",
        "localhost:7420",
        "[::1]:7420",
        "unix:/run/ledger.sock",
        "dns:///localhost:7420",
        "ipv4:127.0.0.1:7420",
    ],
)
def test_this_machine_is_reached_in_plain_text(target: str) -> None:
    assert is_loopback(target)
    endpoint(target, token="t", message_bytes_max=MESSAGE_MAX)


@pytest.mark.parametrize(
    "target",
    ["10.0.0.1:7420", "ledger.example:7420", "127.0.0.1.example:1", "[::2]:7420", "0.0.0.0:7420"],
)
def test_another_machine_is_not_reached_in_plain_text_unless_asked(target: str) -> None:
    with pytest.raises(InvalidRequest, match="target"):
        endpoint(target, token="t", message_bytes_max=MESSAGE_MAX)
    endpoint(target, token="t", allow_plaintext=True, message_bytes_max=MESSAGE_MAX)
    endpoint(target, token="t", tls=Tls(), message_bytes_max=MESSAGE_MAX)


def test_the_token_file_is_the_named_one_else_that_of_the_data_folder() -> None:
    named = {"LEDGER_TOKEN_FILE": "/t", "LEDGER_DATA": "/d"}
    assert find_token_file("runtime", environment=named) == Path("/t")
    assert find_token_file("reviewer", environment={"LEDGER_DATA": "/d"}) == Path(
        "/d/tokens/reviewer"
    )
    assert find_token_file("runtime", environment={}) == Path("ledger-data/tokens/runtime")


def test_a_replaced_token_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "runtime"
    path.write_text("first\n")
    where = endpoint("localhost:1", token_file=path, message_bytes_max=MESSAGE_MAX)
    assert where.metadata() == (("authorization", "Bearer first"),)
    fresh = tmp_path / "fresh"
    fresh.write_text("second")
    fresh.replace(path)
    assert where.metadata() == (("authorization", "Bearer second"),)
    assert "second" not in repr(where)


def test_an_absent_or_empty_token_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CredentialMissing, match="LEDGER_TOKEN_FILE"):
        TokenFile(tmp_path / "absent")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(CredentialMissing, match="empty"):
        TokenFile(tmp_path / "empty")


def test_a_client_certificate_needs_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGER_DATA", os.fspath(tmp_path))
    monkeypatch.delenv("LEDGER_TOKEN_FILE", raising=False)
    tls = Tls(certificate_chain=b"c", private_key=b"secret")
    where = endpoint("ledger.example:1", tls=tls, message_bytes_max=MESSAGE_MAX)
    assert where.metadata() == ()
    assert "secret" not in repr(where)


def test_pings_are_rarer_than_the_default_server_allows() -> None:
    options = dict(endpoint("localhost:1", token="t", message_bytes_max=MESSAGE_MAX).options())
    assert options["grpc.keepalive_time_ms"] >= 10_000
    assert options["grpc.max_send_message_length"] > MESSAGE_MAX


def refund(effect: object, order: int, *, amount: float = 1.5, note: str = "") -> None:
    raise AssertionError("a declaration runs nothing")


def test_a_call_becomes_a_step_with_its_arguments_by_name_defaults_included() -> None:
    options = ToolOptions("2", EffectClass.IDEMPOTENT_WRITE, key=lambda order, **_: f"o:{order}")
    step = declare(refund, None, options).step("s1", (4711,), {"note": "x"})
    assert step == Step(
        "s1",
        tool="refund",
        version="2",
        arguments={"order": 4711, "amount": 1.5, "note": "x"},
        effect_class=EffectClass.IDEMPOTENT_WRITE,
        key="o:4711",
    )


def test_a_call_that_the_function_would_not_take_plans_nothing() -> None:
    with pytest.raises(TypeError):
        declare(refund, None, ToolOptions("1")).step("s1", (), {"ordr": 1})


def test_a_tool_without_a_parameter_for_its_effect_is_refused() -> None:
    def bare(**arguments: Any) -> None:
        raise AssertionError(arguments)

    with pytest.raises(TypeError, match="first parameter"):
        declare(bare, None, ToolOptions("1"))


DRIVING = Driving("r1", 3, Process(1, "0" * 32))


def test_many_commands_get_one_typed_result_each_and_errors_are_results() -> None:
    wire = Wire()
    plan = requests.plan_steps(DRIVING, [Step("s1", "t", "1")])
    answer = runs.SubmitResponse(
        results=[
            runs.CommandResult(
                open_run=runs.OpenRunResponse(append=append(), run=runs.Run(run="r1"))
            ),
            runs.CommandResult(plan_steps=runs.PlanStepsResponse(append=append(), keys=["d:k"])),
            runs.CommandResult(
                error=status_of(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    info("RUN_CLOSED", DOMAIN, durability="NOT_COMMITTED"),
                )
            ),
        ]
    )
    commands: list[Command] = [
        requests.open_run("r1"),
        plan,
        requests.close_run(DRIVING, status=RunStatus.COMPLETED),
    ]
    opened, planned, error = wire.drive(submit(wire.settings(), commands), answer)
    assert isinstance(opened, Opened)
    assert isinstance(planned, Planned)
    assert planned.keys == ("d:k",)
    assert isinstance(error, Refused)
    assert error.reason is Reason.RUN_CLOSED
    sent = wire.last(runs.SubmitRequest)
    assert [command.WhichOneof("command") for command in sent.commands] == [
        "open_run",
        "plan_steps",
        "close_run",
    ]


def test_a_request_id_twice_in_a_message_is_refused_before_sending() -> None:
    wire = Wire()
    twice = requests.open_run("r1")
    with pytest.raises(InvalidRequest, match=r"commands\[1\]\.request_id"):
        wire.drive(submit(wire.settings(), [twice, twice]))


def test_an_answer_of_another_length_is_not_taken_for_complete() -> None:
    wire = Wire()
    with pytest.raises(LedgerError, match="answered 0 of 1"):
        wire.drive(submit(wire.settings(), [requests.open_run("r1")]), runs.SubmitResponse())


def test_every_kind_of_command_can_be_submitted() -> None:
    attempt = requests.Attempt("r1", "s1", 1, 3)
    decision: dict[str, Any] = {
        "run": "r1",
        "step": "s1",
        "verdict": Verdict.EXECUTED,
        "expected_version": 4,
        "reason_code": "seen",
    }
    commands: list[Command] = [
        requests.open_run("r1"),
        requests.acquire_lease("r1", holder="h", process=DRIVING.process, ttl_s=30),
        requests.release_lease(DRIVING, stop_reason=""),
        requests.break_lease("r1", reason="x"),
        requests.plan_steps(DRIVING, [Step("s1", "t", "1", Payload(b""))]),
        requests.start_step(DRIVING, "s1", tool_version="1"),
        requests.complete_step(attempt, outcome=Outcome.SUCCEEDED),
        requests.mark_unknown(attempt, cause="timeout"),
        requests.withdraw_step(DRIVING, "s1"),
        requests.attach_evidence("r1", kind="note", evidence=[1]),
        requests.request_cancel("r1"),
        requests.close_run(DRIVING, status=RunStatus.FAILED),
        review_requests.reconcile(**decision),
        review_requests.propose_decision(**decision),
    ]
    wire = Wire()
    names = [field.name for field in runs.Command.DESCRIPTOR.oneofs[0].fields]
    answers = []
    for name in names:
        result = runs.CommandResult()
        getattr(result, name).SetInParent()
        answers.append(result)
    results = wire.drive(submit(wire.settings(), commands), runs.SubmitResponse(results=answers))
    assert [c.WhichOneof("command") for c in wire.last(runs.SubmitRequest).commands] == names
    errors = [type(each).__name__ for each in results if isinstance(each, LedgerError)]
    assert errors == ["DirectiveNotUnderstood"]
