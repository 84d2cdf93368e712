"""SIGTERM under load: what was acknowledged is there, everything else is told so, and it ends."""

from __future__ import annotations

import time
from typing import Any, Final

import grpc
import pytest

from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import run_service_pb2_grpc
from tests.crash.conftest import NewServer
from tests.crash.mortal_server import MortalServer
from tests.crash.witness import Witness, of_request
from tests.support.calls import Calls, complete_request, new_id, refusal_of_error

IN_FLIGHT: Final = 200
WAIT_S: Final = 30.0
DETAILS: Final = "grpc-status-details-bin"


@pytest.fixture
def mortal(new_server: NewServer, store_url: str) -> MortalServer:
    """A server that waits a while for reports before it ends."""
    server = new_server(store_url, LEDGER_DRAIN_QUIET_MS="1500")
    server.start()
    return server


def test_200_appends_in_flight_at_sigterm_are_kept_or_told(mortal: MortalServer) -> None:
    witness = Witness(mortal)
    requests = [pb.OpenRunRequest(request_id=new_id(), run=f"run-{n}") for n in range(IN_FLIGHT)]
    channel = mortal.channel()
    metadata = (("authorization", f"Bearer {mortal.token()}"),)
    stub = run_service_pb2_grpc.RunServiceStub(channel)
    grpc.channel_ready_future(channel).result(WAIT_S)
    sent = [stub.OpenRun.future(each, metadata=metadata, timeout=WAIT_S) for each in requests]
    sent[0].result(WAIT_S)
    mortal.terminate()
    acknowledged, refused = {}, []
    for request, each in zip(requests, sent, strict=True):
        error = each.exception(WAIT_S)
        if error is None:
            answer = each.result()
            witness.acknowledged.hear(answer)
            acknowledged[request.request_id] = answer
        else:
            refused.append((request, each))
    channel.close()
    assert mortal.wait() == 0, mortal.log()
    entries = witness.verify_rows()
    for request in requests:
        found = len(of_request(entries, request.request_id))
        assert found == (request.request_id in acknowledged)
    for _, each in refused:
        assert each.code() is grpc.StatusCode.UNAVAILABLE
        assert _durability(each) in ("NOT_COMMITTED", "")
    mortal.start()
    calls = witness.calls()
    for request, _ in refused:
        calls.call("OpenRun", request)
    calls.close()
    assert len(witness.verify()) == IN_FLIGHT


def test_what_was_started_is_completed_while_the_server_drains(mortal: MortalServer) -> None:
    witness = Witness(mortal)
    calls = witness.calls()
    steps = [f"step-{n}" for n in range(5)]
    token = calls.driven("run", *steps)
    for step in steps:
        calls.start("run", step, token)
    mortal.terminate()
    wait_until_draining(calls)
    for step in steps:
        answer = calls.call("CompleteStep", complete_request("run", step, token))
        assert answer.append.entries == 1
        refused = calls.refused("OpenRun", pb.OpenRunRequest(request_id=new_id(), run=step))
        assert (refused.reason, refused.durability) == ("DRAINING", "NOT_COMMITTED")
    calls.close()
    assert mortal.wait() == 0, mortal.log()
    entries = witness.verify_rows()
    assert [entry.type for entry in entries].count("step.completed") == len(steps)


def wait_until_draining(calls: Calls) -> None:
    """Asks for runs until one is refused because the server drains."""
    deadline = time.monotonic() + WAIT_S
    for number in range(10_000):
        assert time.monotonic() < deadline
        try:
            calls.open_run(f"asked-{number}")
        except grpc.RpcError as error:
            assert refusal_of_error(error).reason == "DRAINING"
            return
        time.sleep(0.005)  # pause: between two questions
    raise AssertionError("the server does not drain")


def _durability(ended: Any) -> str:
    """What a refused call says of durability; empty where the transport itself turned it away."""
    for key, _ in ended.trailing_metadata() or ():
        if key == DETAILS:
            return refusal_of_error(ended).durability
    return ""
