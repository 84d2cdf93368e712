"""Evidence kinds that the ledger writes itself are nobody else's to send."""

from __future__ import annotations

import pytest

from ledger.core.errors import Malformed
from ledger.service.decode import METHODS, decode_submit, decode_unary
from ledger.v1 import run_service_pb2 as pb
from tests.unit.service.requests import REQUEST_ID, asking, payload, submit


def evidence(kind: str) -> pb.AttachEvidenceRequest:
    """Facts about a run under that kind."""
    return pb.AttachEvidenceRequest(
        request_id=REQUEST_ID, run="run-1", kind=kind, evidence=[payload()]
    )


@pytest.mark.parametrize("kind", ["late_completion", "late_unknown"])
def test_a_kind_of_the_ledgers_own_is_refused_with_its_path_through_both_doors(kind: str) -> None:
    message = evidence(kind)
    with pytest.raises(Malformed) as caught:
        decode_unary(METHODS["AttachEvidence"], message.SerializeToString(), asking())
    assert caught.value.path == "kind"
    (among,) = decode_submit(submit(pb.Command(attach_evidence=message)), asking())
    assert isinstance(among, Malformed)
    assert among.path == "commands[0].attach_evidence.kind"


@pytest.mark.parametrize("kind", ["note", "lookup", "late_completion_seen"])
def test_any_other_kind_is_taken(kind: str) -> None:
    decoded = decode_unary(METHODS["AttachEvidence"], evidence(kind).SerializeToString(), asking())
    assert decoded.request.method == "AttachEvidence"


def test_a_gap_is_taken_with_its_count_and_refused_without() -> None:
    gap = pb.AttachEvidenceRequest(request_id=REQUEST_ID, run="run-1", kind="gap")
    with pytest.raises(Malformed) as caught:
        decode_unary(METHODS["AttachEvidence"], gap.SerializeToString(), asking())
    assert caught.value.path == "dropped"
    gap.dropped = 3
    decoded = decode_unary(METHODS["AttachEvidence"], gap.SerializeToString(), asking())
    assert decoded.request.method == "AttachEvidence"
