"""The gRPC server: its options, its services, its health, and how it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import structlog
from grpc.aio import Server, ServerInterceptor
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio

from ledger.core.commands import RenewLease
from ledger.service.boundary import Boundary
from ledger.service.calls import House
from ledger.service.log_service import LOG_SERVICE, LogCalls
from ledger.service.roles import READ_ROLES
from ledger.service.run_service import REVIEW_SERVICE, REVIEWED, RUN_SERVICE, RunCalls
from ledger.store.errors import StoreError
from ledger.threads import Threads

HEADROOM_BYTES: Final = 1 << 20
"""What a message may have above the written limit before the transport refuses it without a field
path: within it the server names the field itself."""
_KEEPALIVE_MS_MIN: Final = 10_000
_PAST_THE_QUEUE: Final = {"RenewLease": frozenset(RenewLease.roles)}
"""Commands that are decided without the run's state, so their roles are looked at here."""
_log: Final = structlog.get_logger("ledger.service")


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files. With `client_ca`, callers must show a certificate of that authority."""

    certificate: Path
    private_key: Path
    client_ca: Path | None = None


def make_server(house: House, *, interceptors: Sequence[ServerInterceptor] = ()) -> Server:
    """A server with the ledger's services; not yet bound or started.

    Beyond `requests_max` calls at once the transport answers RESOURCE_EXHAUSTED: nothing of such a
    call was read.
    """
    limits = house.limits
    server = grpc.aio.server(
        interceptors=interceptors,
        options=[
            ("grpc.max_receive_message_length", limits.message_bytes_max + HEADROOM_BYTES),
            ("grpc.max_send_message_length", -1),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", _KEEPALIVE_MS_MIN),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.so_reuseport", 0),
        ],
        maximum_concurrent_rpcs=limits.requests_max + limits.streams_max,
    )
    for service, handlers in _handlers(house).items():
        server.add_registered_method_handlers(service, handlers)
        generic = grpc.method_handlers_generic_handler(service, handlers)
        server.add_generic_rpc_handlers((generic,))
    return server


def _handlers(house: House) -> dict[str, dict[str, grpc.RpcMethodHandler[bytes, bytes]]]:
    boundary: Boundary = house.boundary
    runs, entries = RunCalls(house), LogCalls(house)
    made: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        name: boundary.unary(name, handle, roles=_PAST_THE_QUEUE.get(name))
        for name, handle in runs.mutating().items()
    }
    for name, handle in (runs.reading() | entries.reading()).items():
        made[name] = boundary.unary(name, handle, roles=READ_ROLES[name])
    for name, follow in (runs.streaming() | entries.streaming()).items():
        made[name] = boundary.streaming(name, follow, roles=READ_ROLES[name])
    of_log = entries.reading().keys() | entries.streaming().keys()
    return {
        LOG_SERVICE: {name: made[name] for name in of_log},
        REVIEW_SERVICE: {name: made[name] for name in REVIEWED},
        RUN_SERVICE: {n: h for n, h in made.items() if n not in of_log and n not in REVIEWED},
    }


def bind(server: Server, address: str, tls: Tls | None) -> int:
    """Binds the address and answers the port. Raises OSError where it cannot be had."""
    try:
        if tls is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, _credentials(tls))
    except RuntimeError as fault:
        raise OSError(f"cannot listen on {address}: {fault}") from fault
    if not port:
        raise OSError(f"cannot listen on {address}")
    return port


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    pair = (tls.private_key.read_bytes(), tls.certificate.read_bytes())
    root = tls.client_ca.read_bytes() if tls.client_ca is not None else None
    return grpc.ssl_server_credentials([pair], root, require_client_auth=root is not None)


class Health:
    """grpc.health.v1: SERVING only while the store keeps its promises and no log is broken."""

    def __init__(self, check: Callable[[], None], threads: Threads, *, period_s: float) -> None:
        self._check = check
        self._threads = threads
        self._period_s = period_s
        self._servicer = health_aio.HealthServicer()
        self._serving: bool | None = None

    def register(self, server: Server) -> None:
        """Adds the service; it asks for no credential."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def watch(self) -> None:
        """Checks until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._period_s)

    async def look(self) -> None:
        """Checks once, and says what was found. `check` raises what keeps the server from
        serving."""
        try:
            await self._threads.run(self._check)
        except (RuntimeError, OSError, StoreError) as fault:
            await self._say(serving=False, why=str(fault))
        else:
            await self._say(serving=True, why="")

    async def stop(self) -> None:
        """NOT_SERVING from now on."""
        self._serving = False
        await self._servicer.enter_graceful_shutdown()

    async def _say(self, *, serving: bool, why: str) -> None:
        if serving == self._serving:
            return
        self._serving = serving
        status = health_pb2.HealthCheckResponse
        found = status.SERVING if serving else status.NOT_SERVING
        for service in ("", RUN_SERVICE, REVIEW_SERVICE, LOG_SERVICE):
            await self._servicer.set(service, found)
        (_log.info if serving else _log.error)("health", serving=serving, why=why)
