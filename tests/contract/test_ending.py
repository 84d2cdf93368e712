"""How a store ends: closed, interrupted, or killed at any statement."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ledger.store.errors import StoreUnavailable
from ledger.store.interface import Store
from ledger.store.settings import StoreSettings
from ledger.store.tables import ENTRIES, RUNS, SUBJECTS
from tests.support.rows import LOG, append_one, count, entry, make_head, row, size
from tests.support.stores import OpenAgain

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 30

# Kills itself at the n-th moment before or after a statement of one append.
ENDS_ITSELF = """
import os, signal, sys
from itertools import count
from ledger.store.opening import open_store
from ledger.store.settings import StoreSettings
from tests.contract.test_ending import write_all_kinds

moments, last = count(1), int(sys.argv[1])

def observe(moment, kind):
    if next(moments) == last:
        print(moment, kind, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

write_all_kinds(open_store(os.environ["STORE_URL"], StoreSettings(observe=observe)))
"""


def write_all_kinds(store: Store) -> None:
    """One append with every kind of write in it."""
    with store.append(LOG) as appending:
        index = appending.locked_head.size
        appending.get(RUNS, [("t", "r")], lock=True)
        appending.insert(ENTRIES, [entry(index)])
        appending.upsert(RUNS, [row(RUNS, 1, tenant="t", run="r", idx=index)])
        appending.update(RUNS, {"status": f"at {index}"}, equal={"tenant": "t", "run": "r"})
        appending.delete(SUBJECTS, [("t", f"r{index - 1}")])
        appending.insert(SUBJECTS, [("t", f"r{index}", "s")])
        appending.set_head(size=index + 1, frontier=bytes(8), time_us=1)


def _whole_size(store: Store) -> int:
    """The head's size, after checking that everything else agrees with it."""
    with store.read() as reading:
        at = reading.head(LOG).size
        entries = reading.page(ENTRIES, equal={"log": LOG}, order=["idx"], limit=99)
        subjects = reading.page(SUBJECTS, equal={"tenant": "t"}, order=["run"], limit=99)
        (run,) = reading.get(RUNS, [("t", "r")])
    assert [it[1] for it in entries] == list(range(at))
    assert [it[1] for it in subjects] == [f"r{at - 1}"]
    assert run[RUNS.names.index("idx")] == at - 1
    assert run[RUNS.names.index("status")] == f"at {at - 1}"
    return at


@pytest.fixture(autouse=True)
def _a_log(store: Store) -> None:
    make_head(store)


def test_every_statement_is_told_before_and_after(open_again: OpenAgain, store: Store) -> None:
    told: list[tuple[str, str]] = []
    write_all_kinds(open_again(StoreSettings(observe=lambda *what: told.append(what))))
    assert [moment for moment, _ in told] == ["before", "after"] * (len(told) // 2)
    assert [kind for _, kind in told[::2]] == [kind for _, kind in told[1::2]]
    kinds = [kind for _, kind in told]
    assert kinds[0].startswith("begin")
    assert kinds[-1] == "commit"
    assert kinds.count("commit") == 2
    assert size(store) == 1


def test_a_process_killed_at_any_statement_leaves_all_or_nothing(
    store: Store, store_url: str, open_again: OpenAgain
) -> None:
    write_all_kinds(store)
    told: list[tuple[str, str]] = []
    write_all_kinds(open_again(StoreSettings(observe=lambda *what: told.append(what))))
    at = _whole_size(store)
    for number, (moment, kind) in enumerate(told, start=1):
        child = subprocess.run(
            [sys.executable, "-c", ENDS_ITSELF, str(number)],
            cwd=ROOT,
            env={**os.environ, "STORE_URL": store_url},
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert child.returncode == -signal.SIGKILL, child.stderr
        assert child.stdout.split(maxsplit=1) == [moment, f"{kind}\n"]
        at += (moment, kind) == ("after", "commit")
        assert _whole_size(store) == at
        write_all_kinds(store)
        at += 1


def test_what_the_observer_raises_goes_through_and_nothing_is_written(
    open_again: OpenAgain, store: Store
) -> None:
    told: list[tuple[str, str]] = []

    def observe(*what: str) -> None:
        told.append((what[0], what[1]))
        if what == ("before", "commit"):
            raise KeyboardInterrupt

    watched = open_again(StoreSettings(observe=observe))
    with pytest.raises(KeyboardInterrupt):
        write_all_kinds(watched)
    assert told[-1] == ("after", "rollback")
    assert size(store) == 0
    assert append_one(store) == 0


def test_a_closed_store_is_unavailable(store: Store) -> None:
    append_one(store)
    store.close()
    store.close()
    for opened in (store.append(LOG), store.change(), store.read()):
        with pytest.raises(StoreUnavailable), opened:
            raise AssertionError("the block was entered")
    with pytest.raises(StoreUnavailable):
        store.check()


@pytest.mark.parametrize("left_to_do", ["a read", "held writes", "only the commit"])
def test_open_blocks_of_other_threads_end_when_the_store_is_closed(
    store: Store, open_again: OpenAgain, left_to_do: str
) -> None:
    closing = open_again()
    entered, closed = threading.Event(), threading.Event()

    def write() -> None:
        with closing.append(LOG) as appending:
            appending.insert(ENTRIES, [entry(0)])
            appending.set_head(size=1, frontier=bytes(8), time_us=1)
            if left_to_do == "only the commit":
                appending.update(RUNS, {"status": "x"}, equal={"tenant": "none"})
            entered.set()
            assert closed.wait(WAIT_S)
            if left_to_do == "a read":
                appending.get(RUNS, [("t", "r")])

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        assert entered.wait(WAIT_S)
        closing.close()
        closed.set()
        with pytest.raises(StoreUnavailable):
            writing.result(WAIT_S)
    assert count(store, ENTRIES) == 0
    assert append_one(store) == 0


def test_an_append_of_another_process_wakes_a_watcher(store: Store, open_again: OpenAgain) -> None:
    other, woken = open_again(), threading.Event()
    with store.watch(woken.set):
        # The first look may wake for what was there before.
        for _ in range(3):
            woken.clear()
            append_one(other)
            assert woken.wait(WAIT_S)
    woken.clear()
    append_one(other)
    assert not woken.is_set()


def test_a_watcher_of_a_closed_store_ends(open_again: OpenAgain) -> None:
    closing = open_again(StoreSettings(watch_ms=5))
    with closing.watch(lambda: None):
        closing.close()
    assert "ledger-watch" not in {thread.name for thread in threading.enumerate()}
