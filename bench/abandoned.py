"""Runs whose holder is dead: opened, leased, one write started, and never heard of again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from google.protobuf.duration_pb2 import Duration

from bench.calls import Unacknowledged
from bench.traffic import new_id, submit_of
from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import types_pb2
from tests.support.server_process import LedgerServer

LEASE_S: Final = 5
"""The shortest lease there is; the operation deadline below is past before it ends."""
ENTRIES_SWEPT: Final = 2
"""What the ledger writes for each: `lease.expired` and `step.unknown`."""

_PROCESS: Final = "bench-process-abandoned"
_RUNS_A_MESSAGE: Final = 50


def abandon(server: LedgerServer, *, name: str, runs: int) -> None:
    """Leaves so many runs behind. Raises `Unacknowledged` where one is refused."""
    metadata = (("authorization", f"Bearer {server.token()}"),)
    with closing(server.channel()) as channel:
        submit = channel.unary_unary(
            "/ledger.v1.RunService/Submit",
            request_serializer=pb.SubmitRequest.SerializeToString,
            response_deserializer=pb.SubmitResponse.FromString,
        )
        for first in range(0, runs, _RUNS_A_MESSAGE):
            names = [f"{name}-{at:06d}" for at in range(first, min(runs, first + _RUNS_A_MESSAGE))]
            message = submit_of([each for run in names for each in _requests(run)])
            for result in submit(message, metadata=metadata, timeout=60).results:
                if result.WhichOneof("result") == "error":
                    raise Unacknowledged(f"an abandoned run was not recorded: {result.error}")


def _requests(
    run: str,
) -> Iterator[
    pb.OpenRunRequest | pb.AcquireLeaseRequest | pb.PlanStepsRequest | pb.StartStepRequest
]:
    yield pb.OpenRunRequest(request_id=new_id(), run=run)
    yield pb.AcquireLeaseRequest(
        request_id=new_id(),
        run=run,
        holder="bench",
        process=_PROCESS,
        ttl=Duration(seconds=LEASE_S),
    )
    step = pb.PlannedStep(
        step="step",
        tool="refund",
        tool_version="2026-01",
        effect_class=types_pb2.EFFECT_CLASS_NON_IDEMPOTENT_WRITE,
        arguments=types_pb2.Payload(content=b'{"order":"W0"}', media_type="application/json"),
    )
    yield pb.PlanStepsRequest(request_id=new_id(), run=run, token=1, process=_PROCESS, steps=[step])
    yield pb.StartStepRequest(
        request_id=new_id(),
        run=run,
        step="step",
        token=1,
        process=_PROCESS,
        tool_version="2026-01",
        operation_timeout=Duration(seconds=1),
    )
