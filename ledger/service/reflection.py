"""gRPC reflection for callers with a credential: no call is open but health (contract, §12)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from grpc.aio import Server, ServerInterceptor, ServicerContext
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from ledger.service.identity import Identity, NotAuthenticated
from ledger.service.log_service import LOG_SERVICE
from ledger.service.run_service import REVIEW_SERVICE, RUN_SERVICE

_PREFIX = f"/{reflection.SERVICE_NAME}/"

_Next = Callable[[grpc.HandlerCallDetails], Awaitable[Any]]


class ReflectionDoor(ServerInterceptor):
    """Lets nobody reflect who is not a principal of this server."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def intercept_service(
        self, continuation: _Next, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """Stands before every call, and looks at those of reflection only."""
        if handler_call_details.method.startswith(_PREFIX):
            try:
                self._identity.caller(handler_call_details.invocation_metadata or (), dict)
            except NotAuthenticated:
                return grpc.stream_stream_rpc_method_handler(_refuse)
        handler: grpc.RpcMethodHandler[Any, Any] = await continuation(handler_call_details)
        return handler


async def _refuse(_: Any, context: ServicerContext[Any, Any]) -> None:
    await context.abort(
        grpc.StatusCode.UNAUTHENTICATED,
        "Reflection is for callers with a token of this server. Nothing was done.",
    )


def add_reflection(server: Server) -> None:
    """Answers which services there are, and their descriptors."""
    names = (RUN_SERVICE, REVIEW_SERVICE, LOG_SERVICE, health.SERVICE_NAME)
    reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), server)
