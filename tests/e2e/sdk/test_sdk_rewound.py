"""A database that was set back together with its mark: only the clients can know, and they do."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.client import AuditNotRecorded, HistoryRewound
from ledger.client.words import StepState
from tests.e2e.sdk.agent import PAY
from tests.e2e.sdk.conftest import Place

SetBack = Callable[[], None]


@pytest.fixture
def set_back(own_place: Place, tmp_path: Path) -> SetBack:
    """Puts the database and the mark back to where they stood before the test."""
    server = own_place.server
    server.stop()
    shutil.copytree(server.folder, tmp_path / "older")
    server.start()

    def do() -> None:
        server.stop()
        for left in server.folder.glob("ledger.db*"):
            left.unlink()
        shutil.rmtree(server.folder / "mark")
        shutil.copytree(tmp_path / "older", server.folder, dirs_exist_ok=True)
        server.start()

    return do


def test_a_client_that_saw_more_than_the_log_holds_is_told_and_nothing_is_recorded(
    own_place: Place, set_back: SetBack
) -> None:
    client = own_place.client()
    with client.run(own_place.r1, holder="shop"):
        pass
    set_back()
    with pytest.raises(HistoryRewound, match="Run no tool on its word") as caught:
        client.request_cancel(own_place.r1)
    assert (caught.value.seen_size, caught.value.log_size) == (3, 0)
    for call in (
        lambda: client.run(own_place.r2, holder="shop").__enter__(),
        lambda: client.resume(own_place.r1, holder="shop").__enter__(),
        client.checkpoint,
    ):
        with pytest.raises(HistoryRewound):
            call()
    assert list(own_place.client("admin").entries()) == []


def test_an_effect_whose_start_is_gone_ends_unrecorded_and_its_run_does_not_complete(
    own_place: Place, set_back: SetBack
) -> None:
    client = own_place.client()

    def act() -> None:
        with client.run(own_place.r1, holder="shop") as run:
            run.plan([PAY])
            with run.effect(PAY.step) as effect:
                set_back()
                effect.succeeded({"ok": 1})

    with pytest.raises(AuditNotRecorded) as caught:
        act()
    assert isinstance(caught.value.__cause__, HistoryRewound)
    assert list(own_place.client("admin").entries()) == []


def test_a_log_that_was_set_back_and_grew_again_is_another(
    own_place: Place, set_back: SetBack
) -> None:
    client = own_place.client()
    with client.run(own_place.r1, holder="shop"):
        pass
    set_back()
    other = own_place.client()
    with other.run(own_place.r2, holder="shop") as run:
        run.plan([PAY])
        with run.effect(PAY.step) as effect:
            effect.succeeded({"ok": 1})
    before = len(list(own_place.client("admin").entries()))
    with pytest.raises(HistoryRewound, match="another entry") as caught:
        client.request_cancel(own_place.r2)
    assert (caught.value.seen_size, caught.value.log_size) == (3, before)
    assert len(list(own_place.client("admin").entries())) == before


def test_a_new_client_goes_on_with_the_log_as_it_is(own_place: Place, set_back: SetBack) -> None:
    with own_place.client().run(own_place.r1, holder="shop"):
        pass
    set_back()
    with own_place.client().run(own_place.r1, holder="shop") as run:
        run.plan([PAY])
        with run.effect(PAY.step) as effect:
            report = effect.succeeded({"ok": 1})
    assert report.state is StepState.SUCCEEDED
    assert own_place.types(own_place.r1)[-1] == "run.closed"


def test_the_asyncio_client_tells_what_it_saw_too(own_place: Place, set_back: SetBack) -> None:
    async def drive() -> None:
        client = own_place.async_client()
        async with client:
            async with client.run(own_place.r1, holder="shop"):
                pass
            await asyncio.to_thread(set_back)
            await client.checkpoint()

    with pytest.raises(HistoryRewound) as caught:
        asyncio.run(drive())
    assert (caught.value.seen_size, caught.value.log_size) == (3, 0)
