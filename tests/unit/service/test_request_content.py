"""`request.digest`: the walk over protobuf agrees with the stated format; what it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.request_digest import Message, request_digest
from ledger.service.decode import METHODS, decode_submit, decode_unary
from ledger.service.request_content import content_digest, left_out
from ledger.v1 import annotations_pb2, types_pb2
from ledger.v1 import run_service_pb2 as pb
from tests.unit.service.requests import PROCESS, REQUEST_ID, RIGHT, asking, payload, submit

LEFT_OUT = {
    "OpenRun": "request_id subject receipt last_head_seen",
    "AcquireLease": "request_id process receipt last_head_seen",
    "ReleaseLease": "request_id receipt last_head_seen",
    "BreakLease": "request_id receipt last_head_seen",
    "PlanSteps": "request_id process steps.key steps.arguments receipt last_head_seen",
    "StartStep": "request_id process receipt last_head_seen",
    "CompleteStep": "request_id result external_reference receipt last_head_seen",
    "MarkUnknown": "request_id note receipt last_head_seen",
    "WithdrawStep": "request_id process receipt last_head_seen",
    "AttachEvidence": "request_id evidence receipt last_head_seen",
    "RequestCancel": "request_id receipt last_head_seen",
    "CloseRun": "request_id process receipt last_head_seen",
    "Reconcile": "request_id reason evidence result receipt last_head_seen",
    "ProposeDecision": "request_id reason evidence result receipt last_head_seen",
    "AllowDowngrade": "request_id receipt last_head_seen",
}
"""What does not count as content. A field may leave this list; one that joins it changes what an
equal request means, so that a repeat of an old one would be answered as another."""


def stated(message: Any) -> list[tuple[int, Any]]:
    """A message's fields as the format's own statement takes them, read by reflection."""
    fields: list[tuple[int, Any]] = []
    for field, value in message.ListFields():
        if field.GetOptions().Extensions[annotations_pb2.undigested]:
            continue
        fields.append((field.number, _stated(field, value)))
    return fields


def _stated(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return [Message([(1, key), (2, value[key])]) for key in sorted(value)]
    if field.is_repeated:
        return [_item(field, item) for item in value]
    return _item(field, value)


def _item(field: FieldDescriptor, value: Any) -> Any:
    return Message(stated(value)) if field.message_type is not None else value


@pytest.mark.parametrize("method", METHODS)
def test_the_left_out_fields_are_these(method: str) -> None:
    assert list(left_out(METHODS[method].message.DESCRIPTOR)) == LEFT_OUT[method].split()


@pytest.mark.parametrize("method", METHODS)
def test_the_digest_is_the_stated_one(method: str) -> None:
    message = RIGHT[method]()
    assert content_digest(method, message) == request_digest(method, stated(message))


ids = st.text("abcXYZ019._:/@#-", min_size=1, max_size=20)


@st.composite
def plans(draw: st.DrawFn) -> pb.PlanStepsRequest:
    """Plans with anything present or not."""
    steps: Sequence[pb.PlannedStep] = draw(
        st.lists(
            st.builds(
                pb.PlannedStep,
                step=ids,
                tool=ids,
                tool_version=st.just("") | ids,
                effect_class=st.sampled_from([0, 1, 4]),
                key=st.binary(max_size=4),
                after=st.lists(st.just("") | ids, max_size=3),
                supersedes=st.just("") | ids,
                arguments=st.none() | st.just(payload(b"x")),
            ),
            max_size=4,
        )
    )
    return pb.PlanStepsRequest(
        run=draw(ids), token=draw(st.integers(0, 2**53 - 1)), process=PROCESS, steps=steps
    )


@given(plans())
def test_the_digest_of_any_plan_is_the_stated_one(message: pb.PlanStepsRequest) -> None:
    assert content_digest("PlanSteps", message) == request_digest("PlanSteps", stated(message))


@given(st.dictionaries(st.just("") | ids, st.just("") | ids, max_size=4))
def test_the_digest_of_any_labels_is_the_stated_one(labels: dict[str, str]) -> None:
    message = pb.OpenRunRequest(run="run-1", labels=labels)
    assert content_digest("OpenRun", message) == request_digest("OpenRun", stated(message))


@pytest.mark.parametrize("method", METHODS)
def test_each_field_that_counts_changes_the_digest_and_no_other_does(method: str) -> None:
    before = content_digest(method, RIGHT[method]())
    skipped = LEFT_OUT[method].split()
    for field in METHODS[method].message.DESCRIPTOR.fields:
        message: Any = RIGHT[method]()
        if field in {present for present, _ in message.ListFields()}:
            message.ClearField(field.name)
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
        else:
            setattr(message, field.name, field.type == FieldDescriptor.TYPE_BOOL or 1)
        changed = content_digest(method, message) != before
        assert changed is (field.name not in skipped), field.name


def test_a_present_message_at_its_defaults_differs_from_an_absent_one() -> None:
    absent = pb.StartStepRequest(run="run-1")
    present = pb.StartStepRequest(run="run-1")
    present.operation_timeout.SetInParent()
    assert content_digest("StartStep", absent) != content_digest("StartStep", present)


def test_the_same_request_has_one_digest_through_every_door() -> None:
    alone = decode_unary(METHODS["OpenRun"], RIGHT["OpenRun"]().SerializeToString(), asking())
    message = pb.Command(open_run=RIGHT["OpenRun"]())  # type: ignore[arg-type]
    (among,) = decode_submit(submit(message), asking())
    assert not isinstance(among, Exception)
    assert among.request.digest == alone.request.digest


def test_equal_content_of_two_methods_has_two_digests() -> None:
    cancel = pb.RequestCancelRequest(request_id=REQUEST_ID, run="run-1", reason="r")
    assert content_digest("RequestCancel", cancel) != content_digest("BreakLease", cancel)


def test_the_numbers_of_the_contracts_enums_are_what_is_digested() -> None:
    assert types_pb2.OUTCOME_SUCCEEDED == 1
    message = pb.CompleteStepRequest(outcome=types_pb2.OUTCOME_SUCCEEDED)
    assert content_digest("CompleteStep", message) == request_digest("CompleteStep", [(6, 1)])
