"""Whether there is a connection, asked before anything of a call is sent over it.

gRPC does not tell a call that it never sent from one that was lost on the way: both end
UNAVAILABLE, and the words of a refused connection may come from a proxy that had sent the call on
before. So a connection is tried with a health check, which needs no credential and appends nothing.
Where that fails for want of a connection, the call itself is not begun, and certainly not
committed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import grpc

from ledger.client.failures import Failure, failure_of_call

CHECK_PATH: Final = "/grpc.health.v1.Health/Check"
CHECK_BODY: Final = b""  # HealthCheckRequest{}: the server as a whole

# gRPC's own words for no connection, refused or with a failed handshake, and for no address. Were
# they to change, the call is begun and judged by its own end, which is never hopeful.
_NO_CONNECTION: Final = (
    "failed to connect to all addresses",
    "errors resolving",
    "DNS resolution failed",
)


def not_reached(error: grpc.RpcError) -> Failure | None:
    """The failure of a call that was not begun, from how the health check before it ended.

    None where somebody answered, whatever they said: a proxy that knows no health check must not
    keep the calls out that it does know.
    """
    failure = failure_of_call(error)
    if failure.code is grpc.StatusCode.DEADLINE_EXCEEDED or (
        failure.code is grpc.StatusCode.UNAVAILABLE and failure.message.startswith(_NO_CONNECTION)
    ):
        return replace(failure, unsent=True)
    return None


def may_be_gone(failure: Failure) -> bool:
    """Whether the connection has to be tried anew before the next call."""
    return failure.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
