"""The composition root: the whole house in one file, wired and started.

    python -m server
    python -m server projections check|rebuild

Settings come from the environment (`ledger/settings.py`). In order: store (migrated and checked),
keys, tenants and their logs, principals, sequencer, readers, services, address. What cannot be
promised stops the start with one sentence and status 1. SIGTERM and SIGINT drain, then end with 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import orjson
import structlog
from grpc.aio import Server
from pydantic import ValidationError

from ledger.access import AccessLogs
from ledger.access_door import AccessDoor
from ledger.core.errors import Malformed
from ledger.core.ids import Origin, Tenant
from ledger.core.log import Log
from ledger.door import Door
from ledger.failures import FailureKind
from ledger.head_seen import HeadsSeen
from ledger.keyring import KeyMissing, Keyring
from ledger.ledger_time import ClockAlarm, LedgerTime, rarely
from ledger.log_keys import LogKeys
from ledger.log_reading import LogReader, NotSigning
from ledger.marks import Marks
from ledger.principals import FILE_NAME, PrincipalsFile, make_embedded
from ledger.reading import RunReader
from ledger.sequencer import Sequencer, SequencerSettings
from ledger.served_logs import ServedLogs
from ledger.service.boundary import Boundary
from ledger.service.calls import House
from ledger.service.grpc_server import Health, Tls, bind, make_server
from ledger.service.identity import Identity
from ledger.service.jwt_tokens import JwtTokens
from ledger.service.logs import configure_logs
from ledger.service.metrics import Metrics
from ledger.service.recording import Recording
from ledger.service.reflection import ReflectionDoor, add_reflection
from ledger.service.streams import Streams
from ledger.settings import Settings, host_of, port_of
from ledger.signing import Checkpoints
from ledger.signing_loop import SigningLoop
from ledger.store.errors import StoreError
from ledger.store.inline import Projections
from ledger.store.interface import Store, StoredHead
from ledger.store.opening import open_store
from ledger.store.tables import DATA_KEYS, TENANTS
from ledger.sweep import Sweep
from ledger.tenants import Tenants
from ledger.threads import Threads
from ledger.vault import Vault
from ledger.wakes import Wakes
from projections import command
from projections.idempotency import IdempotencyRows
from projections.leases import LeaseRows
from projections.mending import Mending
from projections.resume import ResumeRows
from projections.unknowns import UnknownRows
from projections.views import Views

_COLLECT_AFTER: Final = 20_000
_log: Final = structlog.get_logger("server")


class CannotStart(RuntimeError):
    """What is promised could not be kept, so nothing was started. Says what to do."""


def main() -> int:
    """Runs the server until it is told to stop. 0: it was told; 1: it could not start or go on."""
    try:
        settings = Settings()
    except ValidationError as faults:
        for fault in faults.errors():
            name = ".".join(str(part).upper() for part in fault["loc"])
            sys.stderr.write(f"LEDGER_{name}: {fault['msg']}\n" if name else f"{fault['msg']}\n")
        return 1
    configure_logs(form=settings.log_format, level=settings.log_level)
    try:
        if sys.argv[1:2] == ["projections"]:
            return mend(settings, sys.argv[2])
        return asyncio.run(serve(settings))
    except (CannotStart, KeyMissing, StoreError, Malformed, OSError) as fault:
        sys.stderr.write(f"The ledger did not start: {fault}\n")
        return 1


def mend(settings: Settings, action: str) -> int:
    """Checks or rebuilds the inline projections of every log, and serves nothing."""
    store = open_store(settings.store_address())
    try:
        store.check()
        vault = Vault(Keyring.load(settings.keys_folder))
        policies = settings.policies()
        return command.run(
            action,
            {
                log.tenant: Mending(store, vault.fingerprint_of, log, policies.of(log.tenant))
                for log in Tenants(store, vault).all()
            },
        )
    finally:
        store.close()


async def serve(settings: Settings) -> int:
    """Wires the house, serves, drains. Answers the process's exit status."""
    ended = asyncio.Event()
    broken: list[BaseException] = []
    loop = asyncio.get_running_loop()

    def stop_broken(fault: BaseException) -> None:
        broken.append(fault)
        loop.call_soon_threadsafe(ended.set)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if settings.stop_with_stdin:
        end_with_stdin(loop, ended)
    async with opened(settings, stop_broken) as address:
        collect_seldom()
        announce(settings, address)
        await ended.wait()
    if broken:
        _log.error("stopped by a fault of the server's own", exc_info=broken[0])
        return 1
    return 0


def collect_seldom() -> None:
    """Has the cyclic garbage collector look seldom, and never at what was made before serving.

    A batch makes some ten thousand objects at once and none of them in cycles; at the interpreter's
    own threshold of 700 the collector takes a sixth of the server's time to find nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 50)


@dataclass(frozen=True, slots=True)
class Rooms:
    """What stands between the store and the door."""

    store: Store
    tenants: Tenants
    vault: Vault
    claims: IdempotencyRows
    sequencer: Sequencer
    door: Door
    checkpoints: Checkpoints
    logs: ServedLogs
    accesses: AccessLogs
    threads: Threads
    wakes: Wakes

    def check(self) -> None:
        """Raises what keeps the server from serving."""
        self.store.check()
        for tenant, why in self.logs.refused().items():
            raise CannotStart(f"the log of {tenant} takes no appends: {why}")
        for tenant, kind in self.sequencer.broken().items():
            raise CannotStart(f"the log of {tenant} takes no appends: {kind.value}")
        self.sequencer.check()

    def now_us(self, log: Log, head: StoredHead) -> int:
        """Ledger time as readers are shown it."""
        host_us = time.time_ns() // 1_000
        return self.sequencer.time(log.tenant).shown_us(head_us=head.time_us, host_us=host_us)


@contextlib.asynccontextmanager
async def opened(
    settings: Settings, on_fatal: Callable[[BaseException], None]
) -> AsyncIterator[str]:
    """The whole house, from the store up; torn down in the opposite order. Gives the address."""
    settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with contextlib.AsyncExitStack() as stack:
        rooms = open_rooms(settings, on_fatal, stack)
        make_embedded(settings.folder, tenant=settings.tenant)
        identity, metrics = make_identity(settings), Metrics()
        house = furnish(settings, rooms, identity, metrics)
        health = Health(rooms.check, rooms.threads, period_s=settings.check_ms / 1_000)
        server = make_server(
            house, interceptors=[ReflectionDoor(identity)] if settings.reflection else []
        )
        health.register(server)
        if settings.reflection:
            add_reflection(server)
        address = bound_address(settings, bind(server, settings.listen, tls_of(settings)))
        if settings.metrics_listen:
            host, port = host_of(settings.metrics_listen), port_of(settings.metrics_listen)
            metrics.serve(host=host, port=port)
        await server.start()
        await health.look()
        sweep = Sweep(
            rooms.store, rooms.tenants, rooms.sequencer, period_s=settings.sweep_ms / 1_000
        )
        signing = SigningLoop(
            rooms.checkpoints,
            rooms.threads,
            rooms.logs.all,
            every_ms=settings.sign_ms,
            on_refused=rooms.logs.meet,
        )
        background = [
            watched(asyncio.create_task(task), on_fatal)
            for task in (health.watch(), sweep.run(), signing.run(), rooms.accesses.run())
        ]
        try:
            yield address
        finally:
            await drain(settings, rooms, health, server)
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await sign_last(rooms)


def open_rooms(
    settings: Settings,
    on_fatal: Callable[[BaseException], None],
    stack: contextlib.AsyncExitStack,
) -> Rooms:
    """Store, keys, tenants, sequencer; `stack` closes them."""
    store = open_store(settings.store_address())
    stack.callback(store.close)
    if settings.migrate:
        store.migrate()
    store.check()
    vault = Vault(open_keys(settings, store))
    tenants = Tenants(store, vault)
    make_tenant(settings, tenants)
    claims = IdempotencyRows()
    sequencer = make_sequencer(settings, store, tenants, vault, claims, on_fatal)
    stack.callback(sequencer.drain, settings.drain_ms_max / 1_000)
    door = Door(sequencer)
    checkpoints = Checkpoints(
        store, keys=LogKeys(settings.keys_folder), marks=Marks(settings.mark_folder)
    )
    threads = Threads(count=settings.reading_threads, name="reading")
    stack.callback(threads.close)
    wakes = Wakes()
    loop = asyncio.get_running_loop()

    def refuse(log: Log, why: NotSigning) -> None:
        _log.error("log refused", tenant=log.tenant, origin=log.origin, why=str(why))
        loop.call_soon_threadsafe(close_log, rooms, log)

    logs = ServedLogs(tenants, checkpoints, refuse)
    accesses = AccessLogs(
        store,
        logs.access,
        threads,
        settings.access(),
        new_time=lambda: LedgerTime(on_alarm=rarely(tell_clock)),
        on_commit=wakes.wake,
        on_fatal=on_fatal,
    )
    rooms = Rooms(
        store=store,
        tenants=tenants,
        vault=vault,
        claims=claims,
        sequencer=sequencer,
        door=door,
        checkpoints=checkpoints,
        logs=logs,
        accesses=accesses,
        threads=threads,
        wakes=wakes,
    )
    logs.all()
    sequencer.watch(lambda log, size: wakes.wake())
    stack.enter_context(store.watch(wakes.wake))
    return rooms


def make_sequencer(
    settings: Settings,
    store: Store,
    tenants: Tenants,
    vault: Vault,
    claims: IdempotencyRows,
    on_fatal: Callable[[BaseException], None],
) -> Sequencer:
    """The only writer of the tenants' logs."""
    rows = ResumeRows()
    return Sequencer(
        store,
        tenants,
        vault,
        Projections(rows, claims, (rows, LeaseRows(), claims, UnknownRows())),
        SequencerSettings(policies=settings.policies()),
        new_time=lambda: LedgerTime(on_alarm=rarely(tell_clock)),
        on_fatal=on_fatal,
    )


def furnish(settings: Settings, rooms: Rooms, identity: Identity, metrics: Metrics) -> House:
    """What the services are made with."""
    recording = Recording(rooms.accesses)
    return House(
        boundary=Boundary(identity, metrics, recording.role_missing),
        submitting=AccessDoor(rooms.door, rooms.accesses),
        logs=rooms.logs,
        runs=RunReader(
            store=rooms.store,
            rows=Views(),
            claims=rooms.claims,
            vault=rooms.vault,
            now_us=rooms.now_us,
        ),
        entries=LogReader(
            store=rooms.store,
            vault=rooms.vault,
            signing=rooms.checkpoints,
        ),
        threads=rooms.threads,
        streams=Streams(
            most=settings.streams_max,
            poll_s=settings.poll_ms / 1_000,
            wakes=rooms.wakes,
            metrics=metrics,
        ),
        limits=settings.limits,
        heads=HeadsSeen(rooms.store),
        recording=recording,
    )


def end_with_stdin(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    """Ends as SIGTERM would once standard input is closed: a parent that was killed says nothing
    else.
    """
    number = sys.stdin.fileno()

    def look() -> None:
        if not os.read(number, 4_096):
            loop.remove_reader(number)
            ended.set()

    loop.add_reader(number, look)


async def drain(settings: Settings, rooms: Rooms, health: Health, server: Server) -> None:
    """Takes nothing new, records what was done until it is quiet, then closes the door."""
    deadline_s = time.monotonic() + settings.drain_ms_max / 1_000
    await health.stop()
    rooms.door.drain()
    await rooms.door.wait_quiet(for_s=settings.drain_quiet_ms / 1_000, until_s=deadline_s)
    rooms.wakes.close()
    await server.stop(max(0.1, deadline_s - time.monotonic()))
    await rooms.accesses.drain(max(1.0, deadline_s - time.monotonic()))


def tell_clock(alarm: ClockAlarm) -> None:
    """The database's clock is not believed; time goes on by this host's monotonic clock."""
    _log.error("clock not believed", off_ms=alarm.off_us // 1_000, bridged_us=alarm.bridged_us)


def close_log(rooms: Rooms, log: Log) -> None:
    """A log was rewound: it takes no appends from now on."""
    if rooms.logs.is_access(log):
        rooms.accesses.close_log(log)
    else:
        rooms.door.close_log(log.tenant, FailureKind.HISTORY_REWOUND)


def watched(
    task: asyncio.Task[None], on_fatal: Callable[[BaseException], None]
) -> asyncio.Task[None]:
    """The task; should it end by itself, the server cannot keep what it promises and stops."""

    def ended(done: asyncio.Task[None]) -> None:
        if not done.cancelled() and (fault := done.exception()) is not None:
            on_fatal(fault)

    task.add_done_callback(ended)
    return task


async def sign_last(rooms: Rooms) -> None:
    """A checkpoint of what was appended last. What keeps it from being made was told before."""
    for log in await rooms.threads.run(rooms.logs.all):
        with contextlib.suppress(NotSigning, StoreError):
            await rooms.threads.run(partial(rooms.checkpoints.sign_if_moved, log))


def open_keys(settings: Settings, store: Store) -> Keyring:
    """The key-encryption keys. Makes the first one where the store has nothing that needs one.

    Beside a store with wrapped keys a missing key is never made anew: what it sealed would be lost.
    """
    folder = settings.keys_folder
    try:
        return Keyring.load(folder)
    except KeyMissing:
        with store.read() as reading:
            kept = [
                reading.page(table, equal={}, order=table.key, limit=1)
                for table in (TENANTS, DATA_KEYS)
            ]
        if any(kept):
            raise
    Keyring.new(folder)
    return Keyring.load(folder)


def make_tenant(settings: Settings, tenants: Tenants) -> None:
    """The tenant of the settings, made once; and every tenant's secret opens with these keys."""
    tenant = Tenant(settings.tenant)
    if settings.origin and tenant not in {log.tenant for log in tenants.all()}:
        tenants.new(tenant, Origin(settings.origin))
    tenants.ensure(tenant)
    tenants.all()


def make_identity(settings: Settings) -> Identity:
    """Who may call: the principals file, and JWTs where an issuer is set."""
    tokens = None
    if settings.jwt_keys is not None:
        tokens = JwtTokens(
            issuer=settings.jwt_issuer, audience=settings.jwt_audience, keys=settings.jwt_keys
        )
    return Identity(PrincipalsFile(settings.folder / FILE_NAME), tokens)


def tls_of(settings: Settings) -> Tls | None:
    """The server's certificate, where there is one."""
    if settings.tls_certificate is None or settings.tls_private_key is None:
        return None
    return Tls(settings.tls_certificate, settings.tls_private_key, settings.tls_client_ca)


def bound_address(settings: Settings, port: int) -> str:
    """`host:port` with the port that was got, where 0 was asked for."""
    return f"{settings.listen.rpartition(':')[0]}:{port}"


def announce(settings: Settings, address: str) -> None:
    """One line for people, and a file for programs that wait for it."""
    sys.stdout.write(
        f"The ledger serves on {address}; tokens are in {settings.folder / 'tokens'}\n"
    )
    sys.stdout.flush()
    if settings.ready_file is not None:
        ready = {"address": address, "pid": os.getpid()}
        partial = settings.ready_file.with_name(f".{settings.ready_file.name}.{os.getpid()}")
        partial.write_bytes(orjson.dumps(ready) + b"\n")
        partial.replace(settings.ready_file)


if __name__ == "__main__":
    sys.exit(main())
