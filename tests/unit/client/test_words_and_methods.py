"""The SDK's words and paths are those of the wire."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor import EnumDescriptor

from ledger.client import methods, words
from ledger.client.flow import Method
from ledger.v1 import log_service_pb2, review_service_pb2, run_service_pb2, types_pb2

ENUMS = [
    (words.EffectClass, types_pb2.EffectClass.DESCRIPTOR),
    (words.StepState, types_pb2.StepState.DESCRIPTOR),
    (words.Outcome, types_pb2.Outcome.DESCRIPTOR),
    (words.RunStatus, types_pb2.RunStatus.DESCRIPTOR),
    (words.Availability, types_pb2.Availability.DESCRIPTOR),
    (words.Durability, types_pb2.Durability.DESCRIPTOR),
    (words.Reason, types_pb2.Reason.DESCRIPTOR),
    (words.Disposition, run_service_pb2.Disposition.DESCRIPTOR),
    (words.Verdict, review_service_pb2.Verdict.DESCRIPTOR),
    (words.LogName, log_service_pb2.LogName.DESCRIPTOR),
    (words.ReadPurpose, log_service_pb2.ReadPurpose.DESCRIPTOR),
]
MODULES = (run_service_pb2, review_service_pb2, log_service_pb2)


@pytest.mark.parametrize(("ours", "wire"), ENUMS, ids=lambda each: getattr(each, "__name__", ""))
def test_an_enum_holds_the_words_of_the_wire_with_their_numbers(
    ours: type[words._Word], wire: EnumDescriptor
) -> None:
    shared = [value.name for value in wire.values]
    prefix = shared[0].removesuffix("UNSPECIFIED")
    assert {member.name: int(member) for member in ours} == {
        value.name.removeprefix(prefix): value.number for value in wire.values
    }


def test_a_number_of_a_newer_server_reads_as_unspecified() -> None:
    assert words.StepState(99) is words.StepState.UNSPECIFIED
    assert words.Reason.named("OF_A_NEWER_SERVER") is words.Reason.UNSPECIFIED


def test_every_call_of_the_wire_has_a_method_of_its_path_and_answer() -> None:
    ours = {
        method.path: method.answer.DESCRIPTOR.full_name
        for method in vars(methods).values()
        if isinstance(method, Method)
    }
    assert ours == {
        f"/{service.full_name}/{call.name}": call.output_type.full_name
        for module in MODULES
        for service in module.DESCRIPTOR.services_by_name.values()
        for call in service.methods
    }


def test_only_calls_without_a_request_id_count_as_safe() -> None:
    safe = {m.path for m in vars(methods).values() if isinstance(m, Method) and m.safe}
    assert safe == {
        f"/{service.full_name}/{call.name}"
        for module in MODULES
        for service in module.DESCRIPTOR.services_by_name.values()
        for call in service.methods
        if "request_id" not in call.input_type.fields_by_name and call.name != "Submit"
    } | {methods.GET_RECEIPT.path}
