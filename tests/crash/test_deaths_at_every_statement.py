"""Kill -9 of the server before and after every statement of an append, on each store.

Windows are found by counting: a death one statement later each time, until the server survives.
After each death the server starts again on what is left, the log holds the append wholly or not at
all, and the same request id sent again is answered from the one append that exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import grpc
import pytest

from tests.crash.appends import KINDS, Append
from tests.crash.mortal_server import MortalServer, Window
from tests.crash.witness import UNAVAILABLE, Witness, of_request

pytestmark = pytest.mark.timeout(400)

EVERY_DAY = {"complete_step"}
STATEMENTS_MIN = 5
STATEMENTS_MAX = 30

KIND = pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind in EVERY_DAY else pytest.mark.long) for kind in KINDS],
)


def windows() -> Iterator[Window]:
    """Every place in an append, in the order in which they are passed."""
    for number in count(1):
        yield Window(number, "before")
        yield Window(number, "after")


@KIND
def test_a_death_at_any_statement_leaves_one_event_and_a_log_that_verifies(
    mortal: MortalServer, kind: str
) -> None:
    """IDM-01 and GRA-01."""
    witness = Witness(mortal)
    for window in windows():
        append = witness.made(KINDS[kind], f"{kind}-{window.number}-{window.moment}")
        if not dies_and_recovers(witness, mortal, append, window):
            break
    print(f"{kind}: {2 * (window.number - 1)} windows")
    seen = [statement.split(" ", 2)[2] for statement in mortal.seen()]
    assert STATEMENTS_MIN < window.number < STATEMENTS_MAX
    assert seen.count("commit") == 2, "an append commits once"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["plan_with_a_new_tool", "reconcile", "submit_a_whole_run"])
def test_a_death_at_any_statement_of_a_process_that_remembers_nothing_is_the_same(
    mortal: MortalServer, kind: str
) -> None:
    """The states were made by an earlier process: this one reads runs, keys and tools anew."""
    witness = Witness(mortal)
    appends = [witness.made(KINDS[kind], f"{kind}-{n}") for n in range(2 * STATEMENTS_MAX)]
    for window, append in zip(windows(), appends, strict=False):
        mortal.kill()
        mortal.start()
        if not dies_and_recovers(witness, mortal, append, window):
            break
    print(f"{kind}: {2 * (window.number - 1)} windows")
    assert STATEMENTS_MIN < window.number < STATEMENTS_MAX


def dies_and_recovers(
    witness: Witness, server: MortalServer, append: Append, window: Window
) -> bool:
    """Sends an append that kills the server in this window, then sends it again. False if the
    append has no such window, and was answered."""
    server.arm("die", window)
    answer = witness.send(append)
    if not isinstance(answer, grpc.RpcError):
        witness.verify_once(append, answer)
        return False
    assert answer.code() is UNAVAILABLE
    server.bury()
    committed = server.seen()[-1].endswith("after commit")
    entries = witness.verify_rows()
    for request_id, number in append.entries.items():
        assert len(of_request(entries, request_id)) == (number if committed else 0), window
    server.start()
    again = witness.send(append)
    assert not isinstance(again, grpc.RpcError), (window, again)
    witness.verify_once(append, again)
    return True
