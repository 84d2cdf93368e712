"""Faults reported in public for systems of this kind, as far as it takes real servers to show them.

Each test names the case it answers to; the case's own words are in the project's design folder.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc
import psycopg
import pytest

from ledger.client import Ledger, LedgerUnavailable, Step, StepState, Verdict
from ledger.v1 import review_service_pb2 as review_pb
from ledger.v1 import run_service_pb2 as pb
from tests.crash.appends import complete_step, open_run
from tests.crash.conftest import NewServer
from tests.crash.mortal_server import MortalServer, Window
from tests.crash.test_full_disk import NOT_SERVING, SERVING, files_full, wait_for_health
from tests.crash.witness import Witness, of_request
from tests.e2e.sdk.conftest import settings
from tests.support.calls import new_id, refusal_of_error

CALLERS: Final = 8
PATIENCE_S: Final = 6.0
PAY: Final = Step("s1", tool="pay", version="1", arguments={"amount": 12})
OTHER: Final = "another-process-9"
RETRIES: Final = 3
"""How often a batch is tried where nothing of it happened."""


# Idempotency keys


def test_eight_callers_of_one_request_get_one_answer(mortal: MortalServer) -> None:
    """IDM-02: one event, eight identical answers; another body under the id changes nothing."""
    witness = Witness(mortal)
    append = witness.made(complete_step, "run")
    with ThreadPoolExecutor(CALLERS) as pool:
        answers = list(pool.map(witness.send, [append] * CALLERS))
    assert len({answer.SerializeToString(deterministic=True) for answer in answers}) <= 2
    assert len({(each.append.index, each.append.leaf_hash) for each in answers}) == 1
    other = pb.CompleteStepRequest.FromString(append.message.SerializeToString())
    other.result.content = b'{"amount":999}'
    calls = witness.calls()
    refused = calls.refused("CompleteStep", other)
    calls.close()
    assert refused.reason == "REQUEST_REUSED"
    assert "paid" not in f"{refused.message}{refused.facts}"
    witness.verify_once(append, answers[0])


@pytest.mark.postgres
@pytest.mark.parametrize(
    "sqlstate",
    ["40001", *(pytest.param(each, marks=pytest.mark.long) for each in ("40P01", "55P03"))],
)
def test_a_conflict_in_the_database_is_never_kept_as_an_answer(
    postgres_dsn: str, new_server: NewServer, sqlstate: str
) -> None:
    """IDM-05: serialisation failure, deadlock and lock timeout, raised by the database itself: once
    they are not seen at all; again and again they are an error after which the request is new."""
    server = new_server(postgres_dsn)
    server.start()
    witness = Witness(server)
    hidden, told = (witness.made(open_run, run) for run in ("hidden", "told"))
    with psycopg.connect(postgres_dsn, autocommit=True) as raw:
        fail_inserts(raw, sqlstate, times=1)
        witness.verify_once(hidden, witness.send(hidden))
        fail_inserts(raw, sqlstate, times=RETRIES)
        refusal = refusal_of_error(witness.send(told))
    assert (refusal.code, refusal.durability) == (grpc.StatusCode.UNAVAILABLE, "NOT_COMMITTED")
    assert not of_request(witness.verify(), told.message.request_id)
    moved = witness.made(open_run, "moved")
    witness.verify_once(moved, witness.send(moved))
    witness.verify_once(told, witness.send(told))
    witness.verify_rows()


def fail_inserts(raw: psycopg.Connection[Any], sqlstate: str, *, times: int) -> None:
    """The next inserts of entries fail that often; a sequence counts, which no rollback sets
    back."""
    raw.execute("DROP TRIGGER IF EXISTS failing ON entries")
    raw.execute("DROP SEQUENCE IF EXISTS failures")
    raw.execute("CREATE SEQUENCE failures")
    raw.execute(
        f"""CREATE OR REPLACE FUNCTION failing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('failures') <= {times} THEN
            RAISE EXCEPTION 'injected' USING ERRCODE = '{sqlstate}';
        END IF;
        RETURN NEW; END $$""".encode()
    )
    raw.execute(
        "CREATE TRIGGER failing BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION failing()"
    )


# Recovery


def acquire(witness: Witness, run: str, process: str) -> str:
    """`granted`, or the reason why not."""
    message = pb.AcquireLeaseRequest(request_id=new_id(), run=run, holder="heir", process=process)
    calls = witness.calls()
    try:
        calls.call("AcquireLease", message)
    except grpc.RpcError as error:
        return refusal_of_error(error).reason
    else:
        return "granted"
    finally:
        calls.close()


def test_nothing_that_a_death_left_behind_outlives_its_lease(mortal: MortalServer) -> None:
    """REC-01: killed (a) after Acquire, (b) after Start, (c) with a Release that was not answered,
    (d) the server itself. After one lease each run is free, and what was started is listed."""
    witness = Witness(mortal)
    calls = witness.calls()
    calls.driven("acquired")
    token = calls.driven("started", "s1")
    calls.start("started", "s1", token)
    token = calls.driven("released")
    mortal.arm("die", Window(1, "after"), kind="commit")
    with pytest.raises(grpc.RpcError):
        calls.call(
            "ReleaseLease", pb.ReleaseLeaseRequest(request_id=new_id(), run="released", token=token)
        )
    calls.close()
    mortal.bury()
    mortal.start()
    assert acquire(witness, "released", OTHER) == "granted"
    for run in ("acquired", "started"):
        assert acquire(witness, run, OTHER) == "LEASE_HELD"
    mortal.kill()
    (mortal.folder / "shift").write_text("100", encoding="ascii")
    mortal.start()
    for run in ("acquired", "started"):
        assert acquire(witness, run, OTHER) == "granted"
    listed = witness.calls("reviewer")
    found = listed.call("ListUnknowns", review_pb.ListUnknownsRequest()).unknowns
    listed.close()
    assert [(each.run, each.step) for each in found] == [("started", "s1")]
    witness.verify_rows()


# Acknowledged means durable


@pytest.mark.long
def test_what_cannot_be_recorded_is_not_done_and_not_decided(
    new_server: NewServer, tmp_path: Path
) -> None:
    """ACK-04: the database takes no writes. No tool runs, no decision counts, no lease is given
    back, and health says so; afterwards everything stands as before."""
    server = new_server(f"sqlite://{tmp_path}/ledger.db", LEDGER_CHECK_MS="100")
    server.start()
    client = Ledger.connect(server.address, token=server.token(), settings=settings(PATIENCE_S))
    reviewer = Ledger.connect(
        server.address, token=server.token("reviewer"), settings=settings(PATIENCE_S)
    )
    with client, reviewer:
        with client.run("before", holder="shop") as run:
            run.plan([PAY])
            with run.effect("s1") as effect:
                effect.unknown("lost_answer")
            run.stop("wait")
        (unknown,) = reviewer.unknowns()
        with client.run("now", holder="shop", ttl_s=120) as run:
            run.plan([PAY])
            with files_full(server):
                with pytest.raises(LedgerUnavailable, match="Nothing may be executed"):
                    run.effect("s1").__enter__()
                with pytest.raises(LedgerUnavailable):
                    reviewer.reconcile(unknown, Verdict.EXECUTED, reason_code="seen")
                with pytest.raises(LedgerUnavailable):
                    run.stop("full")
                wait_for_health(server, NOT_SERVING)
            wait_for_health(server, SERVING)
            assert [each.step for each in reviewer.unknowns()] == ["s1"]
            (step,) = client.get_run("now").steps
            assert step.state is StepState.PLANNED
            with run.effect("s1") as effect:
                effect.succeeded()
    Witness(server).verify_rows()
