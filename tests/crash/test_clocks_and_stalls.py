"""Clocks that disagree and workers that stall, as real processes: libfaketime and SIGSTOP.

Only the database's clock counts. What another host believes of the time gives nobody a lease and
takes none away.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from ledger.client import Step, StepState
from ledger.v1 import run_service_pb2 as pb
from tests.e2e.sdk.agent import PAY
from tests.e2e.sdk.conftest import Place
from tests.support.calls import PROCESS, Calls, new_id, refusal_of_error
from tests.support.checkouts import ROOT
from tests.support.server_process import LedgerServer, Process
from tests.support.whole_log import verify_whole_log

pytestmark = [pytest.mark.long, pytest.mark.timeout(200)]

LIBRARIES: Final = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
WAIT_S: Final = 60.0
LEASE_S: Final = 20
OTHER: Final = "another-process-9"


@pytest.fixture(scope="module")
def faketime() -> str:
    """The library that shows a process another time of day."""
    for library in LIBRARIES:
        return str(library)
    pytest.skip("libfaketime is not installed; .ci/run installs it")


def shown(faketime: str, offset: str) -> dict[str, str]:
    """The environment of a process whose time of day is that far off; its monotonic clock is not.
    An offset that is a file's name is read from it again and again."""
    told = {"FAKETIME_TIMESTAMP_FILE": offset} if offset.startswith("/") else {"FAKETIME": offset}
    return {
        "LD_PRELOAD": faketime,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_NO_CACHE": "1",
        **told,
    }


class SkewedServer(LedgerServer):
    """`python -m server` whose host's clock is off."""

    def __init__(
        self,
        folder: Path,
        store_url: str,
        *,
        clock: Mapping[str, str],
        settings: Mapping[str, str],
    ) -> None:
        super().__init__(folder, store_url, settings=settings)
        self._clock = clock

    def spawn(self, environment: Mapping[str, str], log: Path) -> Process:
        """See `LedgerServer.spawn`."""
        with log.open("wb") as opened:
            return subprocess.Popen(
                [sys.executable, "-m", "server"],
                cwd=ROOT,
                env={**environment, **self._clock},
                stdin=subprocess.DEVNULL,
                stdout=opened,
                stderr=subprocess.STDOUT,
            )


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def acquire(calls: Calls, run: str, process: str) -> tuple[str, dict[str, str]]:
    """`granted`, or the reason why not with its facts."""
    message = pb.AcquireLeaseRequest(
        request_id=new_id(), run=run, holder="w", process=process, ttl=Duration(seconds=LEASE_S)
    )
    try:
        calls.call("AcquireLease", message)
    except grpc.RpcError as error:
        refusal = refusal_of_error(error)
        return refusal.reason, refusal.facts
    return "granted", {}


def renew(calls: Calls, run: str, token: int) -> Any:
    """Renews as the first process."""
    request = pb.RenewLeaseRequest(
        run=run, token=token, process=PROCESS, ttl=Duration(seconds=LEASE_S)
    )
    return calls.call("RenewLease", request).lease


@pytest.mark.postgres
@pytest.mark.parametrize("offset", ["+30s", "-3600s"])
def test_a_server_whose_clock_is_off_gives_nobody_a_lease_that_another_holds(
    postgres_dsn: str, tmp_path: Path, faketime: str, ends: ExitStack, offset: str
) -> None:
    """LSE-03: two servers on one database, the second one's host 30 s ahead or an hour behind."""
    keys = {"LEDGER_KEYS_DIR": str(tmp_path / "keys"), "LEDGER_MARK_DIR": str(tmp_path / "mark")}
    right = LedgerServer(tmp_path / "right", postgres_dsn, settings=keys)
    ends.callback(right.close)
    right.start()
    clock = shown(faketime, offset)
    wrong = SkewedServer(tmp_path / "wrong", postgres_dsn, clock=clock, settings=keys)
    ends.callback(wrong.close)
    wrong.start()
    here, there = Calls(right), Calls(wrong)
    ends.callback(here.close)
    ends.callback(there.close)
    here.open_run("run")
    lease = here.acquire("run", ttl=Duration(seconds=LEASE_S)).lease
    for calls in (there, here, there):
        reason, facts = acquire(there, "run", OTHER)
        assert (reason, facts["holder"]) == ("LEASE_HELD", "worker")
        renewed = renew(calls, "run", lease.token)
        ahead_s = renewed.expire_time.ToDatetime(UTC).timestamp() - time.time()
        assert LEASE_S - 10 < ahead_s <= LEASE_S + 1
    entries = verify_whole_log(right)
    assert abs(entries[-1].recorded_at_us / 1e6 - time.time()) < 60
    assert [entry.event["type"] for entry in entries] == ["run.opened", "lease.acquired"]


def test_a_clock_that_is_set_back_during_renewals_moves_no_lease(
    tmp_path: Path, faketime: str, ends: ExitStack
) -> None:
    """LSE-03: the host's own clock is set back an hour; the holder keeps its lease while it renews,
    and loses it one lease after it stops."""
    told = tmp_path / "clock"
    told.write_text("+0", encoding="ascii")
    server = SkewedServer(tmp_path / "server", "", clock=shown(faketime, str(told)), settings={})
    ends.callback(server.close)
    calls = Calls(server.start())
    ends.callback(calls.close)
    calls.open_run("run")
    lease = calls.acquire("run", ttl=Duration(seconds=5)).lease
    request = pb.RenewLeaseRequest(
        run="run", token=lease.token, process=PROCESS, ttl=Duration(seconds=5)
    )
    calls.call("RenewLease", request)
    told.write_text("-3600s", encoding="ascii")
    for _ in range(3):
        assert acquire(calls, "run", OTHER)[0] == "LEASE_HELD"
        calls.call("RenewLease", request)
    began_s, deadline_s = time.monotonic(), time.monotonic() + WAIT_S
    while acquire(calls, "run", OTHER)[0] != "granted":
        assert time.monotonic() < deadline_s, "the lease never ends"
        time.sleep(0.2)  # pause: between looks whether the lease is over
    assert 4 <= time.monotonic() - began_s < 20
    verify_whole_log(server)


@pytest.fixture
def place(tmp_path: Path, ends: ExitStack) -> Iterator[Place]:
    server = LedgerServer(tmp_path / "server")
    ends.callback(server.close)
    yield Place(server.start(), ends)
    verify_whole_log(server)


@pytest.mark.parametrize("offset", ["+3600s", "-3600s"])
def test_a_client_whose_clock_is_off_drives_as_any_other(
    place: Place, tmp_path: Path, faketime: str, offset: str
) -> None:
    """LSE-03: clients' clocks are not used; nothing of them stands in the log."""
    token = place.token_file("runtime")
    agent = [sys.executable, "-m", "tests.e2e.sdk.leaving_agent", place.server.address, str(token)]
    began = datetime.now(UTC)
    ended = subprocess.run(
        [*agent, "blocking", "a child that exits", place.r1, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, **shown(faketime, offset)},
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert ended.returncode == 0, ended.stderr
    change = place.client().get_run(place.r1)
    assert [step.state for step in change.steps] == [StepState.SUCCEEDED]
    assert place.types(place.r1)[-1] == "run.closed"
    assert change.run.changed_at is not None
    assert abs((change.run.changed_at - began).total_seconds()) < WAIT_S


def test_a_worker_stopped_past_its_lease_and_woken_again_changes_nothing(place: Place) -> None:
    """LSE-01: SIGSTOP in its body, another takes over and completes, SIGCONT: its report is
    evidence, its renewals and its release are refused, and the other's lease and result stand."""
    agent = place.agent("hold", place.r1)
    assert agent.says().startswith("started")
    os.kill(agent.pid, signal.SIGSTOP)
    client = place.client()
    with client.resume(place.r1, holder="heir", wait_s=WAIT_S) as run:
        assert state_of(place, "s1") is StepState.UNKNOWN
        run.plan([agent_step("s2")])
        with run.effect("s2") as effect:
            effect.succeeded("by the heir")
        os.kill(agent.pid, signal.SIGCONT)
        agent.go_on()
        assert agent.says() == "", "it closed a run that was not its own any more"
        assert run.lease_lost is None
        assert state_of(place, "s1") is StepState.UNKNOWN
        assert state_of(place, "s2") is StepState.SUCCEEDED
        run.stop("for_a_person")
    kinds = place.types(place.r1)
    assert kinds.count("lease.acquired") == 2
    assert kinds[-2:] == ["evidence.attached", "lease.released"]
    assert kinds.count("step.completed") == 1


def state_of(place: Place, step: str) -> StepState:
    """What the ledger says of a step of the run."""
    steps = place.client("reviewer").get_run(place.r1).steps
    return next(each.state for each in steps if each.step == step)


def agent_step(step: str) -> Step:
    """Another payment."""
    return replace(PAY, step=step, arguments={"amount": 99})
