"""Bytes from strangers: the server lives, serves others meanwhile, and its memory stays flat."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import grpc
import pytest

from ledger.v1 import run_service_pb2 as pb
from tests.crash.conftest import NewServer
from tests.crash.mortal_server import MortalServer
from tests.crash.witness import Witness
from tests.support.calls import complete_request, new_id, payload

GROWTH_MAX_KIB: Final = 64 << 10
CONNECTIONS: Final = 1_000
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WAIT_S: Final = 30.0

GARBAGE: Final = {
    "another protocol": b"GET / HTTP/1.1\r\nHost: ledger\r\n\r\n",
    "nothing but zeros": bytes(4_096),
    "a TLS greeting": bytes.fromhex("16030100050100000100"),
    "a frame that says it is 16 MiB long": PREFACE + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
    "frames of unknown types": PREFACE + b"\x00\x00\x04\xff\xff\x7f\xff\xff\xffabcd" * 500,
    "headers that do not decode": PREFACE
    + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    + b"\x00\x00\x08\x01\x05\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff",
    "a settings frame of a wrong length": PREFACE + b"\x00\x00\x05\x04\x00\x00\x00\x00\x00abcde",
    "a window that overflows": PREFACE
    + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    + b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff" * 3,
    "a preface that ends": PREFACE[:10],
}


@pytest.fixture
def witness(new_server: NewServer, tmp_path: Path) -> Iterator[Witness]:
    """A server that the hostile meet. Its log is verified at the end, and it ends in order."""
    server = new_server(f"sqlite://{tmp_path}/ledger.db")
    server.start()
    witness = Witness(server)
    calls = witness.calls()
    calls.driven("run", "one")
    calls.close()
    yield witness
    assert_serves(witness)
    witness.verify()
    assert server.stop() == 0, server.log()
    assert "Traceback" not in server.log()


def assert_serves(witness: Witness) -> None:
    """Another client is answered."""
    calls = witness.calls()
    calls.open_run(f"run-{new_id()}")
    calls.close()


def memory_kib(server: MortalServer) -> int:
    """What the server's process holds in memory."""
    status = Path(f"/proc/{server.pid}/status").read_text(encoding="ascii")
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1])


def open_files(server: MortalServer) -> int:
    """How many descriptors the server has open."""
    return len(list(Path(f"/proc/{server.pid}/fd").iterdir()))


def connected(server: MortalServer) -> socket.socket:
    """A bare connection."""
    host, _, port = server.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=WAIT_S)


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_on_the_port_does_not_disturb_others(witness: Witness, what: str) -> None:
    before_kib = memory_kib(witness.server)
    for _ in range(20):
        with connected(witness.server) as line, suppress(ConnectionError):
            line.sendall(GARBAGE[what])
    assert_serves(witness)
    assert memory_kib(witness.server) - before_kib < GROWTH_MAX_KIB


def test_a_thousand_connections_opened_and_dropped_leave_nothing(witness: Witness) -> None:
    server = witness.server
    before_kib, before_files = memory_kib(server), open_files(server)
    with ExitStack() as lines:
        for number in range(CONNECTIONS):
            line = lines.enter_context(connected(server))
            if number % 2:
                line.sendall(PREFACE)
        assert_serves(witness)
    deadline = time.monotonic() + WAIT_S
    while open_files(server) > before_files + 20:
        assert time.monotonic() < deadline, "dropped connections stay open"
        time.sleep(0.02)  # pause: between looks at the server's open files
    assert memory_kib(server) - before_kib < GROWTH_MAX_KIB


def test_clients_that_send_byte_by_byte_hold_up_nobody(witness: Witness) -> None:
    with ExitStack() as lines:
        slow = [lines.enter_context(connected(witness.server)) for _ in range(50)]
        for octet in PREFACE[:12]:
            for line in slow:
                line.sendall(bytes([octet]))
            assert_serves(witness)


def test_large_and_wrong_messages_leave_memory_flat(witness: Witness) -> None:
    """10 MB payloads, and messages of 100,000 steps, one after the other, all refused."""
    server = witness.server
    calls = witness.calls()
    large = complete_request("run", "one", 1, result=payload(b"x" * 10_000_000))
    steps = [pb.PlannedStep(step=f"s{n}", tool="pay", tool_version="1") for n in range(100_000)]
    plan = pb.PlanStepsRequest(
        request_id=new_id(), run="run", token=1, process="process-0123456789", steps=steps
    )
    after_kib = []
    for _ in range(20):
        for method, message in (("CompleteStep", large), ("PlanSteps", plan)):
            with pytest.raises(grpc.RpcError) as caught:
                calls.call(method, message)
            assert caught.value.code() in (
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                grpc.StatusCode.INVALID_ARGUMENT,
            )
        after_kib.append(memory_kib(server))
    calls.close()
    assert after_kib[-1] - after_kib[2] < GROWTH_MAX_KIB, after_kib
    assert len(witness.verify()) == 4


@pytest.mark.parametrize(
    "octets",
    [b"\x00" * 64, b"\xed\xa0\x80" * 20, b"\xff" * 5_000, b"\x0a\xff\xff\xff\xff\x0f"],
    ids=["NUL", "lone surrogates", "no message", "a length that lies"],
)
@pytest.mark.parametrize("method", ["OpenRun", "PlanSteps", "CompleteStep", "Submit"])
def test_bytes_that_are_no_message_are_refused_with_the_field(
    witness: Witness, method: str, octets: bytes
) -> None:
    calls = witness.calls()
    with pytest.raises(grpc.RpcError) as caught:
        calls.raw(f"/ledger.v1.RunService/{method}", octets)
    calls.close()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert len(witness.verify()) == 4
