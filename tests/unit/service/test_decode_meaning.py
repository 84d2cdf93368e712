"""What a request means: defaults, keys, and fields that go together or not."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.core import commands
from ledger.core.commands import PlanSteps
from ledger.core.errors import Malformed
from ledger.core.ids import RunId, StepId, derived_key, given_key
from ledger.core.vocabulary import EffectClass
from ledger.service.decode import METHODS, decode_unary
from ledger.v1 import review_service_pb2 as review_pb
from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import types_pb2
from tests.unit.service.requests import CALLER, PROCESS, REQUEST_ID, RIGHT, asking, payload, step


def command_of(method: str, message: Any) -> Any:
    """The command that a right request means."""
    return decode_unary(METHODS[method], message.SerializeToString(), asking()).request.command


def plan_of(*steps: pb.PlannedStep) -> PlanSteps:
    """The command of a plan."""
    request = pb.PlanStepsRequest(
        request_id=REQUEST_ID, run="run-1", token=1, process=PROCESS, steps=steps
    )
    made: PlanSteps = command_of("PlanSteps", request)
    return made


def refused_plan(*steps: pb.PlannedStep) -> Malformed:
    """The fault of a plan that must not be taken."""
    with pytest.raises(Malformed) as caught:
        plan_of(*steps)
    return caught.value


def test_unset_durations_take_the_written_defaults() -> None:
    lease = RIGHT["AcquireLease"]()
    lease.ClearField("ttl")
    assert command_of("AcquireLease", lease).ttl_ms == 30_000
    start = RIGHT["StartStep"]()
    start.ClearField("operation_timeout")
    assert command_of("StartStep", start).operation_ms == 60_000


def test_given_durations_are_milliseconds() -> None:
    assert command_of("AcquireLease", RIGHT["AcquireLease"]()).ttl_ms == 30_500
    assert command_of("StartStep", RIGHT["StartStep"]()).operation_ms == 90_000


def test_an_unset_ceiling_allows_every_class() -> None:
    opened = pb.OpenRunRequest(request_id=REQUEST_ID, run="run-1")
    assert command_of("OpenRun", opened).ceiling is EffectClass.NON_IDEMPOTENT_WRITE


def test_labels_are_sorted_by_name() -> None:
    opened = command_of("OpenRun", RIGHT["OpenRun"]())
    assert opened.labels == (("env", "prod"), ("team", "billing"))


def test_an_unset_media_type_is_octets_and_empty_content_is_content() -> None:
    request = RIGHT["CompleteStep"]()
    assert isinstance(request, pb.CompleteStepRequest)
    request.result.CopyFrom(types_pb2.Payload())
    assert command_of("CompleteStep", request).result == commands.Payload(
        b"", "application/octet-stream"
    )


def test_a_given_key_stands_as_it_is_where_it_may() -> None:
    (planned,) = plan_of(step(key=b"order-7")).steps
    assert (planned.key, planned.raw_key) == ("order-7", b"")


@pytest.mark.parametrize(
    "key", [b"private\x00key", b"\xff\xfe", b"two words", b"d:like", b"x:like", b"_own", b"k" * 255]
)
def test_a_key_that_may_not_stand_in_entries_is_hidden_and_its_bytes_are_kept(key: bytes) -> None:
    (planned,) = plan_of(step(key=key)).steps
    assert planned.key == given_key(key, secret=b"s" * 32)
    assert planned.key.startswith("x:")
    assert planned.raw_key == key


def test_without_a_key_a_write_gets_the_derived_one() -> None:
    for unset in (step(), step(effect_class=types_pb2.EFFECT_CLASS_UNSPECIFIED)):
        (planned,) = plan_of(unset).steps
        expected = derived_key(tenant=CALLER.tenant, run=RunId("run-1"), step=StepId("step-1"))
        assert planned.key == expected


@pytest.mark.parametrize("effect", ["READ_ONLY", "PROPOSE"])
def test_a_class_that_takes_no_key_refuses_one_and_gets_none(effect: str) -> None:
    number = types_pb2.EffectClass.Value(f"EFFECT_CLASS_{effect}")
    assert refused_plan(step(effect_class=number, key=b"k")).path == "steps[0].key"
    (planned,) = plan_of(step(effect_class=number)).steps
    assert planned.key == ""


def test_a_key_of_256_bytes_is_refused() -> None:
    assert refused_plan(step(key=b"k" * 256)).path == "steps[0].key"


def test_a_step_planned_twice_or_waiting_twice_is_refused() -> None:
    twice = refused_plan(step("a"), step("b"), step("a"))
    assert (twice.path, twice.reason) == ("steps[2].step", "is planned twice in this request")
    assert refused_plan(step(after=["a", "b", "a"])).path == "steps[0].after"


def test_an_unset_class_is_left_to_the_bound_one() -> None:
    (planned,) = plan_of(step(effect_class=types_pb2.EFFECT_CLASS_UNSPECIFIED)).steps
    assert planned.effect is None


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"kind": "gap", "dropped": 0, "evidence": []}, "dropped"),
        ({"kind": "gap", "dropped": 3, "evidence": [payload()]}, "evidence"),
        ({"kind": "note", "dropped": 3, "evidence": [payload()]}, "dropped"),
        ({"kind": "note", "evidence": []}, "evidence"),
        ({"kind": "note", "evidence": [payload()], "attempt": 1}, "step"),
        (
            {"kind": "note", "evidence": [payload()], "step": "s", "outcome": 1},
            "attempt",
        ),
    ],
)
def test_evidence_whose_fields_do_not_go_together_is_refused(
    fields: dict[str, Any], path: str
) -> None:
    request = pb.AttachEvidenceRequest(request_id=REQUEST_ID, run="run-1", **fields)
    with pytest.raises(Malformed) as caught:
        command_of("AttachEvidence", request)
    assert caught.value.path == path


def test_a_gap_says_how_many_records_were_dropped() -> None:
    request = pb.AttachEvidenceRequest(request_id=REQUEST_ID, run="run-1", kind="gap", dropped=3)
    assert command_of("AttachEvidence", request).dropped == 3


def test_what_was_not_executed_has_no_result() -> None:
    request = RIGHT["Reconcile"]()
    assert isinstance(request, review_pb.ReconcileRequest)
    request.verdict = review_pb.VERDICT_NOT_EXECUTED
    with pytest.raises(Malformed) as caught:
        command_of("Reconcile", request)
    assert caught.value.path == "result"


def test_a_first_decision_supersedes_none_and_a_later_one_names_its_index() -> None:
    request = RIGHT["Reconcile"]()
    assert isinstance(request, review_pb.ReconcileRequest)
    assert command_of("Reconcile", request).supersedes_index == 5
    request.supersedes_index_plus_one = 0
    assert command_of("Reconcile", request).supersedes_index is None


def test_a_wanted_receipt_is_told_beside_the_request() -> None:
    octets = RIGHT["OpenRun"]().SerializeToString()
    decoded = decode_unary(METHODS["OpenRun"], octets, asking())
    assert decoded.wants_receipt
    assert decoded.request.size_bytes == len(octets)
