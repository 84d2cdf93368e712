"""Several server processes that append to one log: the head row orders them, and nobody notices."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc

from tests.crash.appends import Append, open_run
from tests.crash.conftest import NewServer
from tests.crash.mortal_server import MortalServer
from tests.crash.witness import Acknowledged, Witness, WitnessedCalls, of_request
from tests.support.calls import planned

SERVERS: Final = 2
CLIENTS: Final = 16
APPENDS: Final = 50
STEPS: Final = 16
"""Open and acquire, then plan, start and complete for each step: 50 appends."""
WAIT_S: Final = 100.0


def servers_on(store_url: str, new_server: NewServer, keys: Path) -> list[MortalServer]:
    """Two processes with data folders of their own, the same keys, and one store."""
    settings = {"LEDGER_KEYS_DIR": str(keys / "keys"), "LEDGER_MARK_DIR": str(keys / "mark")}
    servers = [new_server(store_url, **settings) for _ in range(SERVERS)]
    for server in servers:
        server.start()
    return servers


def drive(witness: Witness, run: str) -> int:
    """One client's 50 appends, each acknowledged at once. Answers how many entries they made."""
    calls = witness.calls()
    try:
        entries = calls.open_run(run).append.entries
        granted = calls.acquire(run)
        entries += granted.append.entries
        token = granted.lease.token
        for step in (f"step-{n}" for n in range(STEPS)):
            entries += calls.plan(run, token, [planned(step)]).append.entries
            started = calls.start(run, step, token)
            assert started.WhichOneof("directive") == "execute"
            entries += started.append.entries
            entries += calls.complete(run, step, token).append.entries
        return int(entries)
    finally:
        calls.close()


def test_two_servers_and_16_clients_append_800_entries_to_one_log(
    store_url: str, new_server: NewServer, tmp_path: Path
) -> None:
    """No client is told of a lock, a conflict or a busy database: each answer is the first."""
    servers = servers_on(store_url, new_server, tmp_path)
    witnesses = [Witness(server) for server in servers]
    first = WitnessedCalls(servers[0], witnesses[0].acknowledged)
    first.driven("declares-the-tool", "one")
    first.close()
    before = len(witnesses[0].verify())
    with ThreadPoolExecutor(CLIENTS) as pool:
        driving = [
            pool.submit(drive, witnesses[n % SERVERS], f"client-{n}") for n in range(CLIENTS)
        ]
        made = [each.result(WAIT_S) for each in driving]
    assert made == [APPENDS] * CLIENTS
    for witness in witnesses:
        entries = witness.verify()
        assert len(entries) == before + CLIENTS * APPENDS
    runs = Counter(entry.run_id for entry in witnesses[0].verify_rows()[before:])
    assert runs == Counter({f"client-{n}": APPENDS for n in range(CLIENTS)})
    assert len(_leaves(witnesses)) >= CLIENTS * APPENDS


def test_one_request_sent_to_two_servers_at_once_is_one_event(
    store_url: str, new_server: NewServer, tmp_path: Path
) -> None:
    """A client that gave up on one replica asks the other while the first still works on it."""
    witnesses = [Witness(server) for server in servers_on(store_url, new_server, tmp_path)]
    for number in range(10):
        append = witnesses[0].made(open_run, f"run-{number}")
        with ThreadPoolExecutor(SERVERS) as pool:
            answers = [each.result(WAIT_S) for each in _sent(pool, witnesses, append)]
        for answer in answers:
            assert not isinstance(answer, grpc.RpcError), answer
        assert len({(each.append.index, each.append.leaf_hash) for each in answers}) == 1
        entries = witnesses[0].verify()
        assert len(of_request(entries, append.message.request_id)) == 1
    for witness in witnesses:
        witness.acknowledged.verify_in(witness.verify_rows())


def _sent(pool: ThreadPoolExecutor, witnesses: list[Witness], append: Append) -> list[Any]:
    return [pool.submit(witness.send, append) for witness in witnesses]


def _leaves(witnesses: list[Witness]) -> dict[int, bytes]:
    heard = Acknowledged()
    for witness in witnesses:
        heard.leaves |= witness.acknowledged.leaves
    return heard.leaves
