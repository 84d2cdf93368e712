"""What breaks a request's form is refused with the path of the field, for every method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.api import field_behavior_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from ledger.core.errors import Malformed
from ledger.service.decode import METHODS, decode_unary
from ledger.service.faults import LimitPassed
from ledger.v1 import run_service_pb2 as pb
from tests.unit.service.requests import PROCESS, RIGHT, asking, payload, step

# Required in the message, yet its default is a lawful value: a tool may return nothing at all.
LAWFUL_DEFAULTS = {"content"}


def fault_of(method: str, message: Message, **limits: int) -> Malformed:
    """The fault of a request that must not be taken."""
    with pytest.raises(Malformed) as caught:
        decode_unary(METHODS[method], message.SerializeToString(), asking(**limits))
    return caught.value


def places(message: Any, path: str = "") -> Iterator[tuple[Any, FieldDescriptor, str]]:
    """Every field of a message and of the messages that are present in it."""
    for field in message.DESCRIPTOR.fields:
        name = f"{path}.{field.name}" if path else field.name
        yield message, field, name
        value = getattr(message, field.name)
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        if field.is_repeated:
            for at, item in enumerate(value):
                yield from places(item, f"{name}[{at}]")
        elif message.HasField(field.name):
            yield from places(value, name)


def paths(keep: Any) -> list[tuple[str, str]]:
    """(method, path) of each field of the right requests that `keep` takes."""
    return [
        (method, path)
        for method, make in RIGHT.items()
        for _, field, path in places(make())
        if keep(field)
    ]


def spoiled(method: str, path: str) -> tuple[Any, Any, FieldDescriptor]:
    """A right request, and the message and field in it that stand at `path`."""
    request = RIGHT[method]()
    for holder, field, here in places(request):
        if here == path:
            return request, holder, field
    raise AssertionError(f"{method} has no {path}")


def is_required(field: FieldDescriptor) -> bool:
    behaviors = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    return field_behavior_pb2.REQUIRED in behaviors and field.name not in LAWFUL_DEFAULTS


def is_text(field: FieldDescriptor) -> bool:
    return field.type == FieldDescriptor.TYPE_STRING


def is_enum(field: FieldDescriptor) -> bool:
    return field.type == FieldDescriptor.TYPE_ENUM


def is_number(field: FieldDescriptor) -> bool:
    return field.type in (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_INT32)


def put(holder: Any, field: FieldDescriptor, value: Any) -> None:
    if field.is_repeated:
        del getattr(holder, field.name)[:]
        getattr(holder, field.name).append(value)
    else:
        setattr(holder, field.name, value)


@pytest.mark.parametrize("method", RIGHT)
def test_a_right_request_is_taken(method: str) -> None:
    decoded = decode_unary(METHODS[method], RIGHT[method]().SerializeToString(), asking())
    assert decoded.request.method == method
    assert len(decoded.request.digest) == 32


def test_every_method_has_a_right_request_here() -> None:
    assert RIGHT.keys() == METHODS.keys()


@pytest.mark.parametrize(("method", "path"), paths(is_required))
def test_a_missing_required_field_is_refused_by_its_path(method: str, path: str) -> None:
    request, holder, field = spoiled(method, path)
    holder.ClearField(field.name)
    fault = fault_of(method, request)
    assert (fault.path, fault.reason.partition(":")[0]) == (path, "is missing")


@pytest.mark.parametrize("text", ["a\x00b", "two words", "ünïcode", "x" * 129, "a\nb"])
@pytest.mark.parametrize(("method", "path"), paths(is_text))
def test_text_that_is_no_id_is_refused_by_its_path(method: str, path: str, text: str) -> None:
    request, holder, field = spoiled(method, path)
    put(holder, field, text)
    fault = fault_of(method, request)
    assert fault.path == (f"{path}[0]" if field.is_repeated else path)
    assert text not in fault.reason


@pytest.mark.parametrize(
    ("method", "path"),
    [
        (method, path)
        for method, path in paths(is_text)
        if path.rpartition(".")[2] not in {"process", "request_id", "media_type"}
    ],
)
def test_an_id_that_the_ledger_keeps_for_itself_is_refused(method: str, path: str) -> None:
    request, holder, field = spoiled(method, path)
    put(holder, field, "_log")
    assert fault_of(method, request).reason == "begins with _, which is reserved"


@pytest.mark.parametrize(("method", "path"), paths(is_enum))
def test_an_unknown_enum_value_is_refused_by_its_path(method: str, path: str) -> None:
    request, holder, field = spoiled(method, path)
    setattr(holder, field.name, 99)
    fault = fault_of(method, request)
    assert (fault.path, fault.reason) == (path, "is 99, which is no value known here")


@pytest.mark.parametrize("number", [-1, -(2**31)])
@pytest.mark.parametrize(("method", "path"), paths(is_number))
def test_a_negative_number_is_refused_by_its_path(method: str, path: str, number: int) -> None:
    request, holder, field = spoiled(method, path)
    setattr(holder, field.name, number)
    assert fault_of(method, request).path in (path, path.removesuffix(".seconds"))


@pytest.mark.parametrize(
    ("method", "path"),
    [(m, p) for m, p in paths(lambda f: f.type == FieldDescriptor.TYPE_INT64) if "." not in p],
)
def test_a_number_that_no_entry_can_hold_is_refused(method: str, path: str) -> None:
    request, holder, field = spoiled(method, path)
    setattr(holder, field.name, 2**53)
    assert fault_of(method, request).path == path


@pytest.mark.parametrize("text", ["0190F3C2-0000-7000-8000-000000000001", "1", "0" * 36])
def test_a_request_id_that_is_no_lower_case_uuid_is_refused(text: str) -> None:
    fault = fault_of("OpenRun", pb.OpenRunRequest(request_id=text, run="run-1"))
    assert fault.path == "request_id"


@pytest.mark.parametrize("process", ["short", "x" * 65, "with space 0123456789"])
def test_a_nonce_of_another_form_is_refused(process: str) -> None:
    request = RIGHT["StartStep"]()
    assert isinstance(request, pb.StartStepRequest)
    request.process = process
    assert fault_of("StartStep", request).path == "process"


@pytest.mark.parametrize(
    ("seconds", "nanos", "path", "is_limit"),
    [
        (4, 999_000_000, "ttl", True),
        (3_600, 1_000_000, "ttl", True),
        (0, 0, "ttl", True),
        (-5, 0, "ttl", True),
        (2**62, 0, "ttl", True),
        (30, 1, "ttl", False),
        (30, -1_000_000, "ttl.nanos", False),
        (30, 1_000_000_000, "ttl.nanos", False),
    ],
)
def test_a_duration_out_of_its_range_is_refused(
    seconds: int, nanos: int, path: str, is_limit: bool
) -> None:
    request = pb.AcquireLeaseRequest(
        request_id="0190f3c2-0000-7000-8000-000000000001",
        run="run-1",
        holder="worker",
        process=PROCESS,
    )
    request.ttl.seconds, request.ttl.nanos = seconds, nanos
    fault = fault_of("AcquireLease", request)
    assert fault.path == path
    assert isinstance(fault, LimitPassed) is is_limit


def test_a_payload_above_the_limit_is_named_by_its_content() -> None:
    request = RIGHT["PlanSteps"]()
    assert isinstance(request, pb.PlanStepsRequest)
    request.steps.append(step("step-3", arguments=payload(b"x" * ((1 << 20) + 1))))
    fault = fault_of("PlanSteps", request)
    assert isinstance(fault, LimitPassed)
    assert fault.path == "steps[2].arguments.content"
    assert fault.reason == "has 1,048,577 bytes, at most 1,048,576 are allowed"


@pytest.mark.parametrize(
    ("spoil", "path"),
    [
        (lambda r: r.steps.extend(step(f"s-{n}") for n in range(1_000)), "steps"),
        (lambda r: r.steps[0].after.extend(f"s-{n}" for n in range(65)), "steps[0].after"),
    ],
)
def test_too_many_items_are_refused_by_their_path(spoil: Any, path: str) -> None:
    request = RIGHT["PlanSteps"]()
    spoil(request)
    fault = fault_of("PlanSteps", request)
    assert isinstance(fault, LimitPassed)
    assert fault.path == path


def test_too_many_labels_and_too_much_evidence_are_refused() -> None:
    opened = RIGHT["OpenRun"]()
    assert isinstance(opened, pb.OpenRunRequest)
    opened.labels.update({f"name-{n}": "value" for n in range(15)})
    assert fault_of("OpenRun", opened).path == "labels"
    evidence = RIGHT["AttachEvidence"]()
    assert isinstance(evidence, pb.AttachEvidenceRequest)
    evidence.evidence.extend(payload() for _ in range(32))
    assert fault_of("AttachEvidence", evidence).path == "evidence"


def test_a_hundred_thousand_steps_are_refused_before_any_is_read() -> None:
    request = RIGHT["PlanSteps"]()
    assert isinstance(request, pb.PlanStepsRequest)
    request.steps.extend(pb.PlannedStep(step="\u2028") for _ in range(100_000))
    fault = fault_of("PlanSteps", request)
    assert (fault.path, fault.reason) == ("steps", "has 100,002 items, at most 1,000 are allowed")


def test_a_message_above_the_limit_names_its_largest_field() -> None:
    request = RIGHT["PlanSteps"]()
    assert isinstance(request, pb.PlanStepsRequest)
    request.steps[1].arguments.content = b"x" * 60_000
    fault = fault_of("PlanSteps", request, message_bytes_max=50_000)
    assert isinstance(fault, LimitPassed)
    assert fault.path == "steps[1].arguments.content"
