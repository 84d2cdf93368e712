"""A standby that lagged behind is promoted: acknowledged entries are gone, and everybody is told.

Two PostgreSQL servers, one following the other without being waited for. The ledger's line leads to
whichever is the primary, as a virtual address does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from ledger.client import HistoryRewound, Ledger
from ledger.v1 import log_service_pb2 as log_pb
from tests.crash.appends import open_run
from tests.crash.conftest import NewServer
from tests.crash.mortal_server import MortalServer
from tests.crash.withholding_proxy import WithholdingProxy
from tests.crash.witness import Witness
from tests.support.calls import refusal_of_error
from tests.support.postgres import PostgresServer
from tests.support.postgres.server import ROLE
from tests.support.postgres.standby import StandbyServer

pytestmark = [pytest.mark.postgres, pytest.mark.long, pytest.mark.timeout(300)]

LOST: Final = 100
SIGNED_RARELY: Final = {"LEDGER_SIGN_MS": "3600000"}


class Pair:
    """A primary, its standby, and the address that leads to the one that takes writes."""

    def __init__(self, primary: PostgresServer, standby: StandbyServer, control: Path) -> None:
        self.primary = primary
        self.standby = standby
        self.leader: PostgresServer = primary
        self.line = WithholdingProxy(control, lambda: f"127.0.0.1:{self.leader.port}")

    def url(self, database: str) -> str:
        """The address of a database of the leader."""
        password = self.primary._known().password
        return f"postgresql://{ROLE}:{password}@{self.line.address}/{database}?sslmode=disable"

    def fail_over(self) -> None:
        """The primary is killed, and the standby takes its place with what it has."""
        self.primary.kill()
        self.standby.promote()
        self.leader = self.standby


@pytest.fixture
def pair(own_postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Pair]:
    own_postgres_server.create_database("ledger")
    with StandbyServer(own_postgres_server) as standby:
        made = Pair(own_postgres_server, standby, tmp_path / "withheld")
        with made.line:
            yield made


def appended(witness: Witness, name: str, count: int) -> None:
    """That many runs are opened, each acknowledged."""
    for number in range(count):
        append = witness.made(open_run, f"{name}-{number}")
        answer = witness.send(append)
        assert not isinstance(answer, grpc.RpcError), answer


def reason_of(answer: Any) -> str:
    """The reason of a call that must not succeed."""
    assert isinstance(answer, grpc.RpcError), answer
    return refusal_of_error(answer).reason


def verify_told(client: Ledger) -> None:
    """A client that saw what is gone gets both heads."""
    with pytest.raises(HistoryRewound) as caught:
        client.request_cancel("kept-0")
    assert (caught.value.seen_size, caught.value.log_size) == (3 + LOST + 3, 3)


def size_of(server: MortalServer) -> int:
    """How many entries the store has, whoever asks."""
    witness = Witness(server)
    calls = witness.calls("admin")
    try:
        return int(calls.call("ListEntries", log_pb.ListEntriesRequest(page_size=1)).size)
    finally:
        calls.close()


def test_what_a_lagging_standby_lost_is_told_and_its_places_are_not_given_away(
    pair: Pair, new_server: NewServer
) -> None:
    """ACK-02: 100 acknowledged appends are lost; the running server, a restarted one and a client
    that remembers all refuse to go on."""
    server = new_server(pair.url("ledger"), **SIGNED_RARELY)
    server.start()
    witness = Witness(server)
    appended(witness, "kept", 3)
    pair.standby.catch_up()
    pair.standby.stop_following()
    appended(witness, "lost", LOST)
    token = server.token("runtime")
    with Ledger.connect(server.address, token=token) as client:
        assert client.checkpoint().size == 3 + LOST
        with client.run("seen", holder="shop"):
            pass
        pair.fail_over()
        verify_told(client)
        again = witness.made(open_run, "after")
        assert reason_of(witness.send(again)) == "HISTORY_REWOUND"
        server.stop()
        server.start()
        assert reason_of(witness.send(again)) == "HISTORY_REWOUND"
        verify_told(client)
    assert size_of(server) == 3


def test_a_standby_that_had_everything_takes_over_without_a_loss(
    pair: Pair, new_server: NewServer
) -> None:
    """ACK-02, the other side: nothing acknowledged is missing, and appends go on."""
    server = new_server(pair.url("ledger"), **SIGNED_RARELY)
    server.start()
    witness = Witness(server)
    appended(witness, "kept", 3)
    pair.standby.catch_up()
    pair.fail_over()
    append = witness.made(open_run, "after")
    witness.verify_once(append, witness.send(append))
    witness.verify_rows()
