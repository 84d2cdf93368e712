"""A server that dies while it records an access: what was handed out is recorded, always."""

from __future__ import annotations

import re

import grpc
import pytest

from ledger.v1 import log_service_pb2 as log_pb
from ledger.v1 import run_service_pb2 as pb
from tests.crash.mortal_server import MortalServer, Window
from tests.support.calls import Calls, new_id
from tests.support.whole_log import access_log_of, verify_whole_log


def _payload_of(calls: Calls, run: str) -> log_pb.GetPayloadRequest:
    page = calls.call("ListRunEntries", log_pb.ListRunEntriesRequest(run=run))
    (payload_id,) = re.findall(rb'"id":"([0-9a-f]{32})"', page.entries[-1].entry)
    return log_pb.GetPayloadRequest(index=page.entries[-1].index, payload_id=payload_id.decode())


def _reads(mortal: MortalServer) -> int:
    return [entry.type for entry in access_log_of(mortal)].count("access.payload_read")


@pytest.mark.parametrize(("moment", "stands"), [("before", 0), ("after", 1)])
def test_a_death_around_the_commit_hands_nothing_out_unrecorded(
    mortal: MortalServer, moment: str, stands: int
) -> None:
    runtime, reviewer = Calls(mortal), Calls(mortal, "reviewer")
    runtime.driven("r", "s1")
    asked = _payload_of(reviewer, "r")
    window = Window(1, "before" if moment == "before" else "after")
    mortal.arm("die", window, kind="commit", thread="access-")
    with pytest.raises(grpc.RpcError):
        reviewer.call("GetPayload", asked)
    mortal.bury()
    mortal.start()
    assert _reads(mortal) == stands
    again = Calls(mortal, "reviewer")
    assert again.call("GetPayload", asked).payload.content == b'{"step":"s1"}'
    assert _reads(mortal) == stands + 1
    verify_whole_log(mortal)
    for calls in (runtime, reviewer, again):
        calls.close()


def test_a_refusal_whose_answer_was_lost_is_recorded_once(mortal: MortalServer) -> None:
    reviewer = Calls(mortal, "reviewer")
    asked = pb.OpenRunRequest(request_id=new_id(), run="r")
    mortal.arm("die", Window(1, "after"), kind="commit", thread="access-")
    with pytest.raises(grpc.RpcError):
        reviewer.call("OpenRun", asked)
    mortal.bury()
    mortal.start()
    again = Calls(mortal, "reviewer")
    for _ in range(2):
        assert again.refused("OpenRun", asked).reason == "ROLE_MISSING"
    types = [entry.type for entry in access_log_of(mortal)]
    assert types.count("access.refused") == 1
    reviewer.close()
    again.close()
