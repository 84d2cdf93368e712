"""Answers that never came: the client gave up, went away, or its server stood still.

The client's deadline passes while the server is at a statement that the test chose. What was
queued is dropped with its deadline; what was begun is finished; the same request id sent again
leaves one event.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc
import pytest

from tests.crash.appends import Append, complete_step, open_run, start_step
from tests.crash.mortal_server import MortalServer, Window
from tests.crash.witness import Witness, of_request
from tests.support.calls import refusal_of_error

SHORT_S: Final = 0.3
WAIT_S: Final = 30.0


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


def commit_window(witness: Witness, server: MortalServer) -> Window:
    """Where `open_run` commits, counted."""
    server.arm("wait", Window(999, "after"))
    append = witness.made(open_run, "counted")
    witness.verify_once(append, witness.send(append))
    (at,) = [seen for seen in server.seen() if seen.endswith("before commit")]
    return Window(int(at.split()[0]), "before")


def wait_for(witness: Witness, append: Append) -> None:
    """Until the append stands in the log."""
    deadline = time.monotonic() + WAIT_S
    while not of_request(witness.verify(), append.message.request_id):
        assert time.monotonic() < deadline
        time.sleep(0.01)  # pause: between looks at the log


def test_a_deadline_shorter_than_the_commit_leaves_one_event(
    mortal: MortalServer, pool: ThreadPoolExecutor
) -> None:
    """GRA-01."""
    witness = Witness(mortal)
    at = commit_window(witness, mortal)
    for window in (Window(1, "before"), at, Window(at.number, "after")):
        append = witness.made(open_run, f"run-{window.number}-{window.moment}")
        mortal.arm("wait", window)
        sent = pool.submit(witness.send, append, timeout_s=SHORT_S)
        with mortal.waiting():
            answer = sent.result(WAIT_S)
            assert answer.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        again = witness.send(append)
        witness.verify_once(append, again)
        wait_for(witness, append)


def test_a_start_that_was_never_answered_starts_one_attempt(
    mortal: MortalServer, pool: ThreadPoolExecutor
) -> None:
    """The same process asks again and may go on: its first try is the one that counts."""
    witness = Witness(mortal)
    append = witness.made(start_step, "run")
    mortal.arm("wait", Window(1, "before"))
    sent = pool.submit(witness.send, append, timeout_s=SHORT_S)
    with mortal.waiting():
        assert sent.result(WAIT_S).code() is grpc.StatusCode.DEADLINE_EXCEEDED
    wait_for(witness, append)
    again = witness.send(append)
    assert again.execute.attempt == 1
    assert again.execute.replayed
    witness.verify_once(append, again)


def test_a_stopped_server_that_goes_on_later_appends_once(
    mortal: MortalServer, pool: ThreadPoolExecutor
) -> None:
    """SIGSTOP at COMMIT: to the client the server is as good as gone."""
    witness = Witness(mortal)
    at = commit_window(witness, mortal)
    append = witness.made(open_run, "run")
    mortal.arm("wait", at)
    sent = pool.submit(witness.send, append, timeout_s=SHORT_S)
    with mortal.waiting():
        os.kill(mortal.pid, signal.SIGSTOP)
        try:
            answer = sent.result(WAIT_S)
            assert answer.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            assert witness.send(append, timeout_s=SHORT_S).code() in (
                grpc.StatusCode.DEADLINE_EXCEEDED,
                grpc.StatusCode.UNAVAILABLE,
            )
        finally:
            os.kill(mortal.pid, signal.SIGCONT)
    wait_for(witness, append)
    witness.verify_once(append, witness.send(append))


def test_a_request_whose_deadline_passed_in_the_queue_is_dropped(
    mortal: MortalServer, pool: ThreadPoolExecutor
) -> None:
    witness = Witness(mortal)
    at = commit_window(witness, mortal)
    holding, queued = (witness.made(open_run, run) for run in ("holding", "queued"))
    mortal.arm("wait", at)
    held = pool.submit(witness.send, holding)
    with mortal.waiting():
        answer = witness.send(queued, timeout_s=SHORT_S)
        assert answer.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    witness.verify_once(holding, held.result(WAIT_S))
    later = witness.made(open_run, "later")
    witness.verify_once(later, witness.send(later))
    assert not of_request(witness.verify(), queued.message.request_id)
    witness.verify_once(queued, witness.send(queued))


def test_a_client_that_goes_away_does_not_tear_a_commit(
    mortal: MortalServer, pool: ThreadPoolExecutor
) -> None:
    """GRA-01."""
    witness = Witness(mortal)
    at = commit_window(witness, mortal)
    append = witness.made(complete_step, "run")
    mortal.arm("wait", at)
    calls = witness.calls()
    sent = pool.submit(calls.call, append.method, append.message)
    with mortal.waiting():
        calls.close()
        with pytest.raises(grpc.RpcError):
            sent.result(WAIT_S)
    wait_for(witness, append)
    witness.verify_once(append, witness.send(append))


def test_a_neighbour_is_answered_while_another_request_is_refused(mortal: MortalServer) -> None:
    """A request id that was used for other content is refused, and stays used."""
    witness = Witness(mortal)
    append = witness.made(open_run, "run")
    witness.verify_once(append, witness.send(append))
    other = witness.made(open_run, "other")
    other.message.request_id = append.message.request_id
    answer = witness.send(other)
    assert refusal_of_error(answer).reason == "REQUEST_REUSED"
    witness.verify_once(append, witness.send(append))
    witness.verify_rows()
