"""Requests are checked before they are sent, and the fault is named by its field."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from ledger.client import requests, review_requests
from ledger.client.checks import Limits
from ledger.client.errors import InvalidRequest, Violation
from ledger.client.flow import answered
from ledger.client.methods import PLAN_STEPS
from ledger.client.payloads import JSON_TYPE, Payload, error_note, omitted
from ledger.client.process import Process
from ledger.client.requests import Attempt, Driving, Step
from ledger.client.words import EffectClass, Outcome, Verdict
from tests.unit.client.scripted import Wire

DRIVING = Driving("r1", 3, Process(1, "0" * 32))
ATTEMPT = Attempt("r1", "s1", 1, 3)


def plan(**changed: object) -> Callable[[], object]:
    fields: dict[str, object] = {"step": "s1", "tool": "refund", "version": "1"}
    step = Step(**(fields | changed))  # type: ignore[arg-type]
    return lambda: requests.plan_steps(DRIVING, [Step("s0", "refund", "1"), step])


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


BAD: dict[str, Callable[[], object]] = {
    "run": lambda: requests.open_run("_run"),
    "initiator": lambda: requests.open_run("r", initiator="a b"),
    "labels": lambda: requests.open_run("r", labels={str(n): "x" for n in range(17)}),
    "labels['a']": lambda: requests.open_run("r", labels={"a": ""}),
    "holder": lambda: requests.acquire_lease("r", holder="", process=DRIVING.process, ttl_s=30),
    "ttl": lambda: requests.acquire_lease("r", holder="h", process=DRIVING.process, ttl_s=4.9),
    "steps": lambda: requests.plan_steps(DRIVING, []),
    "steps[1].step": plan(step="x" * 129),
    "steps[1].tool": plan(tool="refund\x00"),
    "steps[1].tool_version": plan(version=""),
    "steps[1].key": plan(key=b""),
    "steps[1].after": plan(after=tuple(f"s{n}" for n in range(65))),
    "steps[1].after[1]": plan(after=("s0", "é")),
    "steps[1].supersedes": plan(supersedes="a key"),
    "steps[1].arguments.a[0]": plan(arguments={"a": [b"raw"]}),
    "steps[1].arguments.total": plan(arguments={"total": float("nan")}),
    "steps[1].arguments.n": plan(arguments={"n": 2**53}),
    "steps[1].arguments.s": plan(arguments={"s": "\ud800"}),
    "steps[1].arguments": plan(arguments={1: "x"}),
    "steps[1].arguments.content": plan(arguments=Payload(bytes((1 << 20) + 1))),
    "steps[1].arguments.media_type": plan(arguments=Payload(b"", "text")),
    "steps[1].arguments.subject": plan(arguments=Payload(b"", subject="Ms Smith")),
    "step": lambda: requests.start_step(DRIVING, "", tool_version="1"),
    "tool_version": lambda: requests.start_step(DRIVING, "s", tool_version=""),
    "operation_timeout": lambda: requests.start_step(
        DRIVING, "s", tool_version="1", timeout_s=float("nan")
    ),
    "result.content": lambda: requests.complete_step(
        ATTEMPT, outcome=Outcome.SUCCEEDED, result="x" * (1 << 20)
    ),
    "cause": lambda: requests.mark_unknown(ATTEMPT, cause="timed out"),
    "kind": lambda: requests.attach_evidence("r1", kind=""),
    "evidence": lambda: requests.attach_evidence("r1", kind="note", evidence=[1] * 33),
    "evidence[1].a": lambda: requests.attach_evidence(
        "r1",
        kind="note",
        evidence=[1, {"a": object()}],  # type: ignore[dict-item]
    ),
    "reason_code": lambda: review_requests.reconcile(
        run="r1", step="s1", verdict=Verdict.EXECUTED, expected_version=1, reason_code=""
    ),
    "reason": lambda: review_requests.reconcile(
        run="r1",
        step="s1",
        verdict=Verdict.EXECUTED,
        expected_version=1,
        reason_code="seen",
        reason="\udfff",
    ),
}


@pytest.mark.parametrize("path", BAD)
def test_a_faulty_field_is_refused_by_its_path_before_sending(path: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        BAD[path]()
    assert caught.value.violations[0].field == path


def test_all_faults_of_a_request_are_named_at_once() -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan(step="", tool="a b", key="")()
    fields = [violation.field for violation in caught.value.violations]
    assert fields == ["steps[1].step", "steps[1].tool", "steps[1].key"]


def test_more_than_a_thousand_steps_are_refused_without_reading_them() -> None:
    with pytest.raises(InvalidRequest, match=r"steps: has 100,000 items; 1 to 1,000"):
        requests.plan_steps(DRIVING, [Step("", "", "")] * 100_000)


def test_nesting_beyond_sixteen_levels_is_refused_and_sixteen_pass() -> None:
    plan(arguments=nested(16))()
    with pytest.raises(InvalidRequest, match="nested too deep"):
        plan(arguments=nested(17))()


def test_a_key_for_a_class_that_takes_none_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="READ_ONLY takes none"):
        plan(effect_class=EffectClass.READ_ONLY, key="k")()


@pytest.mark.parametrize("key", ["k" * 255, "é", b"\x00\xff", "x:mine"])
def test_a_key_is_any_1_to_255_bytes(key: str | bytes) -> None:
    sent = requests.plan_steps(DRIVING, [Step("s1", "t", "1", key=key)]).steps[0].key
    assert sent == (key if isinstance(key, bytes) else key.encode())


def test_a_message_beyond_eight_mebibytes_names_its_largest_field() -> None:
    steps = [Step(f"s{n}", "t", "1", Payload(bytes(1 << 20))) for n in range(8)]
    request = requests.plan_steps(DRIVING, steps)
    wire = Wire()
    with pytest.raises(InvalidRequest) as caught:
        wire.drive(answered(wire.settings(), PLAN_STEPS, request))
    assert caught.value.violations[0].field == "steps"
    assert not wire.sent


def test_a_lower_limit_of_the_server_can_be_set() -> None:
    with pytest.raises(InvalidRequest, match=r"arguments\.content"):
        requests.plan_steps(
            DRIVING, [Step("s", "t", "1", "x" * 99)], limits=Limits(payload_bytes_max=100)
        )


def test_no_message_of_a_refusal_repeats_the_payload() -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan(arguments={"card": "4190576", "n": 2**60})()
    assert "4190576" not in str(caught.value)
    assert "4190576" not in repr(Step("s", "t", "1", {"card": "4190576"}))
    assert "4190576" not in repr(Payload(b"4190576"))


def test_structured_arguments_are_sent_as_rfc_8785_bytes() -> None:
    step = Step("s", "t", "1", {"b": 1.0, "a": [None, True, "é"], "é": 1e21})
    arguments = requests.plan_steps(DRIVING, [step]).steps[0].arguments
    assert arguments.content == '{"a":[null,true,"é"],"b":1,"é":1e+21}'.encode()
    assert arguments.media_type == JSON_TYPE


def test_raw_arguments_are_sent_as_they_are() -> None:
    step = Step("s", "t", "1", Payload(b" {}\x00", "text/x-odd;a=b"))
    arguments = requests.plan_steps(DRIVING, [step]).steps[0].arguments
    assert (arguments.content, arguments.media_type) == (b" {}\x00", "text/x-odd;a=b")


def test_a_null_result_is_a_payload_and_no_result_is_none() -> None:
    null = requests.complete_step(ATTEMPT, outcome=Outcome.SUCCEEDED, result=None)
    assert null.result.content == b"null"
    none = requests.complete_step(ATTEMPT, outcome=Outcome.SUCCEEDED)
    assert not none.HasField("result")


def test_a_request_id_is_a_new_uuid7_for_each_call_and_sorts_by_time() -> None:
    made = [requests.new_request_id() for _ in range(1_000)]
    assert len(set(made)) == 1_000
    assert {uuid.UUID(each).version for each in made} == {7}
    assert [each[:13] for each in made] == sorted(each[:13] for each in made)


def test_a_superseding_decision_names_index_zero_too() -> None:
    request = review_requests.reconcile(
        run="r1",
        step="s1",
        verdict=Verdict.NOT_EXECUTED,
        expected_version=4,
        reason_code="seen",
        supersedes_index=0,
    )
    assert request.supersedes_index_plus_one == 1


def test_an_error_note_can_always_be_recorded() -> None:
    note = error_note(ValueError("\ud800 broken \x00"))
    assert note.content == rb'{"error":"ValueError","text":"\\ud800 broken \u0000"}'


def test_a_result_that_cannot_be_stored_leaves_its_digest_and_size() -> None:
    marker = omitted(Payload(b"abc"), fault=Violation("result.content", "is too long"))
    assert marker.content == (
        b'{"omitted":"is too long","path":"result.content","sha256":'
        b'"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","size":3}'
    )
    bare = omitted(object(), fault=Violation("result", "is an object"))
    assert bare.content == b'{"omitted":"is an object","path":"result"}'
