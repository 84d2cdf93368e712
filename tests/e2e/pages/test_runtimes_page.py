"""docs/runtimes.md: every block of Python prints what stands below it."""

from __future__ import annotations

import os

import pytest

from ledger.client import ForkedProcess, NotExecuting, Reason, Refused, Step
from tests.e2e.pages.conftest import Reader
from tests.support.pages import documented


def test_a_first_run_prints_what_the_page_says(reader: Reader) -> None:
    said = reader.python(documented("docs/runtimes.md", "first"))
    assert said == documented("docs/runtimes.md", "first-says")


def test_the_decorator_skips_what_was_done(reader: Reader) -> None:
    said = reader.python(documented("docs/runtimes.md", "decorator"))
    assert said == documented("docs/runtimes.md", "decorator-says")


def test_a_lost_answer_is_unknown_and_not_done_again(reader: Reader) -> None:
    said = reader.python(documented("docs/runtimes.md", "unknown"))
    assert said == documented("docs/runtimes.md", "unknown-says")


def test_an_asyncio_body_is_cancelled_at_its_deadline(reader: Reader) -> None:
    said = reader.python(documented("docs/runtimes.md", "deadline"))
    assert said == documented("docs/runtimes.md", "deadline-says")


def test_another_process_resumes_from_the_plan(reader: Reader) -> None:
    said = reader.python(documented("docs/runtimes.md", "resume"))
    assert said == documented("docs/runtimes.md", "resume-says")


def test_a_watch_tells_of_a_change(reader: Reader) -> None:
    said = reader.python(documented("docs/runtimes.md", "watch"))
    assert said == documented("docs/runtimes.md", "watch-says")


def test_many_commands_go_in_one_message(reader: Reader) -> None:
    said = reader.python(documented("docs/runtimes.md", "batch"))
    assert said == documented("docs/runtimes.md", "batch-says")


def test_a_body_without_the_guard_stops_at_its_key_on_a_replay(reader: Reader) -> None:
    with reader.client() as client, client.run("guarded", holder="agent") as run:
        run.plan([Step("s1", "send_invoice", "1", {"order": 6})])
        with run.effect("s1") as effect:
            effect.succeeded({"sent": 1})
        with run.effect("s1") as effect:
            with pytest.raises(NotExecuting):
                _ = effect.key
            assert not effect.execute


def test_a_closed_run_is_not_opened_again(reader: Reader) -> None:
    with reader.client() as client:
        with client.run("closed", holder="agent"):
            pass
        with pytest.raises(Refused) as refused, client.run("closed", holder="agent"):
            pass
    assert refused.value.reason is Reason.RUN_EXISTS


def test_a_forked_child_is_told_that_the_lease_is_not_its_own(reader: Reader) -> None:
    with reader.client() as client, client.run("forked", holder="agent") as run:
        run.plan([Step("s1", "send_invoice", "1", {"order": 7})])
        child = os.fork()
        if child == 0:
            try:
                run.plan([Step("s2", "send_invoice", "1", {"order": 8})])
            except ForkedProcess:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
