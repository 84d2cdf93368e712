"""Raw calls on a server's stubs, as one principal, with requests that are right by default."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from ledger.v1 import log_service_pb2 as log_pb
from ledger.v1 import (
    log_service_pb2_grpc,
    review_service_pb2_grpc,
    run_service_pb2_grpc,
    types_pb2,
)
from ledger.v1 import review_service_pb2 as review_pb
from ledger.v1 import run_service_pb2 as pb
from tests.support.server_process import LedgerServer

PROCESS = "process-0123456789"
TIMEOUT_S = 20.0
DETAILS = "grpc-status-details-bin"


def new_id() -> str:
    """A fresh request id."""
    return str(uuid.uuid4())


def payload(content: bytes = b"{}") -> types_pb2.Payload:
    """JSON bytes of a caller."""
    return types_pb2.Payload(content=content, media_type="application/json")


def planned(step: str, **fields: Any) -> pb.PlannedStep:
    """A write of the tool `pay` 1.0."""
    given: dict[str, Any] = {
        "tool": "pay",
        "tool_version": "1.0",
        "effect_class": types_pb2.EFFECT_CLASS_NON_IDEMPOTENT_WRITE,
        "arguments": payload(b'{"step":"' + step.encode() + b'"}'),
    }
    return pb.PlannedStep(step=step, **(given | fields))


@dataclass(frozen=True)
class Refusal:
    """How a call ended otherwise than with an answer."""

    code: grpc.StatusCode
    reason: str
    durability: str
    field: str
    facts: dict[str, str]
    message: str


def refusal_of(status: Status) -> Refusal:
    """What a google.rpc.Status says."""
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert status.details, status
    assert status.details[0].Unpack(info)
    fields = [v.field for d in status.details if d.Unpack(bad) for v in bad.field_violations]
    code = next(code for code in grpc.StatusCode if code.value[0] == status.code)
    facts = dict(info.metadata)
    return Refusal(
        code, info.reason, facts["durability"], fields[0] if fields else "", facts, status.message
    )


class Calls:
    """The three services as one embedded principal calls them. Answers, or raises grpc.RpcError."""

    def __init__(
        self, server: LedgerServer, principal: str = "runtime", *, token: str = ""
    ) -> None:
        self._channel = server.channel()
        self._metadata = (("authorization", f"Bearer {token or server.token(principal)}"),)
        self.run_stub = run_service_pb2_grpc.RunServiceStub(self._channel)
        self.review_stub = review_service_pb2_grpc.ReviewServiceStub(self._channel)
        self.log_stub = log_service_pb2_grpc.LogServiceStub(self._channel)

    def close(self) -> None:
        """Closes the channel."""
        self._channel.close()

    def call(self, method: str, message: Any, *, timeout_s: float = TIMEOUT_S) -> Any:
        """One unary call by its name."""
        for stub in (self.run_stub, self.review_stub, self.log_stub):
            rpc: Any = getattr(stub, method, None)
            if rpc is not None:
                return rpc(message, metadata=self._metadata, timeout=timeout_s, wait_for_ready=True)
        raise AssertionError(f"no service has {method}")

    def raw(self, path: str, octets: bytes) -> bytes:
        """Bytes to a method by its full path."""
        rpc: Any = self._channel.unary_unary(path)
        answer: bytes = rpc(octets, metadata=self._metadata, timeout=TIMEOUT_S, wait_for_ready=True)
        return answer

    def refused(self, method: str, message: Any) -> Refusal:
        """How a call that must not succeed ended."""
        try:
            answer = self.call(method, message)
        except grpc.RpcError as error:
            return refusal_of_error(error)
        raise AssertionError(f"{method} was answered: {answer}")

    # Right by default

    def open_run(self, run: str, **fields: Any) -> pb.OpenRunResponse:
        """OpenRun."""
        answer: pb.OpenRunResponse = self.call(
            "OpenRun", pb.OpenRunRequest(**({"request_id": new_id(), "run": run} | fields))
        )
        return answer

    def acquire(self, run: str, **fields: Any) -> pb.AcquireLeaseResponse:
        """AcquireLease."""
        given: dict[str, Any] = {
            "request_id": new_id(),
            "run": run,
            "holder": "worker",
            "process": PROCESS,
        }
        answer: pb.AcquireLeaseResponse = self.call(
            "AcquireLease", pb.AcquireLeaseRequest(**(given | fields))
        )
        return answer

    def plan(
        self, run: str, token: int, steps: Sequence[pb.PlannedStep], **fields: Any
    ) -> pb.PlanStepsResponse:
        """PlanSteps."""
        given: dict[str, Any] = {
            "request_id": new_id(),
            "run": run,
            "token": token,
            "process": PROCESS,
            "steps": steps,
        }
        answer: pb.PlanStepsResponse = self.call(
            "PlanSteps", pb.PlanStepsRequest(**(given | fields))
        )
        return answer

    def start(self, run: str, step: str, token: int, **fields: Any) -> pb.StartStepResponse:
        """StartStep."""
        answer: pb.StartStepResponse = self.call(
            "StartStep", start_request(run, step, token, **fields)
        )
        return answer

    def complete(self, run: str, step: str, token: int, **fields: Any) -> pb.CompleteStepResponse:
        """CompleteStep."""
        answer: pb.CompleteStepResponse = self.call(
            "CompleteStep", complete_request(run, step, token, **fields)
        )
        return answer

    def driven(self, run: str, *steps: str) -> int:
        """A run that is open, driven and planned; answers its token."""
        self.open_run(run)
        token = self.acquire(run).lease.token
        if steps:
            self.plan(run, token, [planned(step) for step in steps])
        return token


def start_request(run: str, step: str, token: int, **fields: Any) -> pb.StartStepRequest:
    """A StartStep that is right by default."""
    given: dict[str, Any] = {
        "request_id": new_id(),
        "run": run,
        "step": step,
        "token": token,
        "process": PROCESS,
        "tool_version": "1.0",
    }
    return pb.StartStepRequest(**(given | fields))


def complete_request(run: str, step: str, token: int, **fields: Any) -> pb.CompleteStepRequest:
    """A CompleteStep of attempt 1 that is right by default."""
    given: dict[str, Any] = {
        "request_id": new_id(),
        "run": run,
        "step": step,
        "attempt": 1,
        "token": token,
        "outcome": types_pb2.OUTCOME_SUCCEEDED,
        "result": payload(b'{"done":1}'),
    }
    return pb.CompleteStepRequest(**(given | fields))


def refusal_of_error(error: grpc.RpcError) -> Refusal:
    """What a failed call says."""
    trailing: Any = error.trailing_metadata() or ()
    for key, value in trailing:
        if key == DETAILS:
            return refusal_of(Status.FromString(value))
    raise AssertionError(f"{error.code()} without details: {error.details()}")


__all__ = ["Calls", "Refusal", "log_pb", "pb", "review_pb", "types_pb2"]
