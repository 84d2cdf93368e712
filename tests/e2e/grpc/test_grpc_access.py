"""Who may call: every method without a credential, with a wrong one, and without the role."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ledger.core.commands import (
    AcquireLease,
    AllowDowngrade,
    AttachEvidence,
    BreakLease,
    CloseRun,
    CompleteStep,
    MarkUnknown,
    OpenRun,
    PlanSteps,
    ProposeDecision,
    Reconcile,
    ReleaseLease,
    RenewLease,
    RequestCancel,
    StartStep,
    WithdrawStep,
)
from ledger.service.roles import READ_ROLES
from ledger.v1 import log_service_pb2 as log_pb
from ledger.v1 import review_service_pb2 as review_pb
from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import types_pb2
from tests.support.calls import TIMEOUT_S, Calls, new_id, refusal_of_error
from tests.support.server_process import LedgerServer

ROOT = Path(__file__).resolve().parents[3]
SERVICES = (pb, review_pb, log_pb)
STREAMS = {"WatchRun", "FollowEntries"}
COMMANDS = (
    OpenRun,
    AcquireLease,
    RenewLease,
    ReleaseLease,
    BreakLease,
    PlanSteps,
    StartStep,
    CompleteStep,
    MarkUnknown,
    WithdrawStep,
    AttachEvidence,
    RequestCancel,
    CloseRun,
    ProposeDecision,
    Reconcile,
    AllowDowngrade,
)
METHODS = sorted(
    method.full_name.rpartition(".")[0] + "/" + method.name
    for module in SERVICES
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
)


def ended(server: LedgerServer, method: str, metadata: tuple[tuple[str, str], ...]) -> Any:
    """How a call without a message ends."""
    with server.channel() as channel:
        kind = channel.unary_stream if method.rpartition("/")[2] in STREAMS else channel.unary_unary
        rpc: Any = kind(f"/{method}")
        try:
            answer = rpc(b"", metadata=metadata, timeout=TIMEOUT_S, wait_for_ready=True)
            found = list(answer) if method.rpartition("/")[2] in STREAMS else [answer]
        except grpc.RpcError as error:
            return refusal_of_error(error)
        raise AssertionError(f"{method} was answered: {found}")


@pytest.mark.parametrize("method", METHODS)
def test_no_method_is_open_without_a_credential(sqlite_server: LedgerServer, method: str) -> None:
    refused = ended(sqlite_server, method, ())
    assert (refused.code, refused.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")


def test_a_wrong_token_is_refused_and_not_repeated(sqlite_server: LedgerServer) -> None:
    for value in ("Bearer secret-of-nobody", "Basic secret-of-nobody", "secret-of-nobody"):
        refused = ended(sqlite_server, "ledger.v1.RunService/GetRun", (("authorization", value),))
        assert refused.code is grpc.StatusCode.UNAUTHENTICATED
        assert "secret-of-nobody" not in refused.message
    assert "secret-of-nobody" not in sqlite_server.log()


def test_health_is_open_and_says_serving(sqlite_server: LedgerServer) -> None:
    with sqlite_server.channel() as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        for service in ("", "ledger.v1.RunService", "ledger.v1.LogService"):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=TIMEOUT_S)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize(
    ("principal", "method", "message"),
    [
        ("runtime", "ListEntries", log_pb.ListEntriesRequest()),
        ("runtime", "GetReceipt", log_pb.GetReceiptRequest(index=0)),
        ("runtime", "GetPayload", log_pb.GetPayloadRequest(payload_id="0" * 32)),
        ("runtime", "BreakLease", pb.BreakLeaseRequest(run="r", reason="x")),
        ("runtime", "AllowDowngrade", None),
        ("reviewer", "OpenRun", pb.OpenRunRequest(run="r")),
        ("reviewer", "GetResumeState", pb.GetResumeStateRequest(run="r", token=1)),
        ("confirmer", "RequestCancel", pb.RequestCancelRequest(run="r")),
        ("admin", "OpenRun", pb.OpenRunRequest(run="r")),
        ("admin", "GetPayload", log_pb.GetPayloadRequest(payload_id="XY")),
    ],
)
def test_a_call_without_its_role_is_refused(
    sqlite_server: LedgerServer, principal: str, method: str, message: Message | None
) -> None:
    asked: Any = message or review_pb.AllowDowngradeRequest(
        tool="t", tool_version="1", effect_class=types_pb2.EFFECT_CLASS_PROPOSE, reason="x"
    )
    if "request_id" in asked.DESCRIPTOR.fields_by_name and method != "GetReceipt":
        asked.request_id = new_id()
    calls = Calls(sqlite_server, principal)
    if (principal, method) == ("admin", "GetPayload"):
        assert calls.refused(method, asked).field == "payload_id"  # the audit role may ask
    else:
        refused = calls.refused(method, asked)
        assert (refused.code, refused.reason) == (
            grpc.StatusCode.PERMISSION_DENIED,
            "ROLE_MISSING",
        )
    calls.close()


def test_the_page_of_roles_says_what_the_server_does() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([A-Z]\w+)` \| ([a-z, *]+) \|$", text, re.MULTILINE))
    allowed: dict[str, set[str]] = {
        command.__name__: {role.value for role in command.roles} for command in COMMANDS
    }
    allowed |= {name: {role.value for role in roles} for name, roles in READ_ROLES.items()}
    everyone = allowed.pop("GetReceipt")
    assert rows.pop("GetReceipt") == "*"
    assert len(everyone) == 9
    assert rows.pop("Submit") == "*"
    assert {name: set(roles.split(", ")) for name, roles in rows.items()} == allowed
