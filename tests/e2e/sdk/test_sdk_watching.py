"""`watch` tells a stopped runtime what was decided, over a restart of the server too."""

from __future__ import annotations

import asyncio

from ledger.client import Ledger, Step, StepState, UnknownStep, Verdict
from tests.e2e.sdk.conftest import Place


def _stopped(place: Place, client: Ledger, run: str) -> UnknownStep:
    with client.run(run, holder="agent") as driven:
        driven.plan([Step("s1", "send", "1", {"order": 1})])
        driven.effect("s1", timeout_s=60).__enter__()
        driven.stop("waiting_for_a_person")
    (unknown,) = place.client("reviewer").unknowns(run=run)
    return unknown


def test_a_decision_and_a_cancel_are_told_to_who_watches(place: Place) -> None:
    client = place.client()
    unknown = _stopped(place, client, place.r1)
    told = client.watch(place.r1)
    first = next(told)
    assert [step.state for step in first.steps] == [StepState.UNKNOWN]
    place.client("reviewer").reconcile(unknown, Verdict.EXECUTED, reason_code="found")
    decided = next(told)
    assert [step.state for step in decided.steps] == [StepState.RECONCILED_EXECUTED]
    assert decided.run.version > first.run.version
    client.request_cancel(place.r1)
    cancelled = next(told)
    assert cancelled.run.cancel_requested
    assert cancelled.run.status.name == "CANCELLED"


def test_a_watch_goes_on_where_it_was_after_the_server_is_restarted(own_place: Place) -> None:
    client = own_place.client()
    unknown = _stopped(own_place, client, own_place.r1)
    told = client.watch(own_place.r1)
    first = next(told)
    own_place.server.kill()
    own_place.server.start()
    own_place.client("reviewer").reconcile(unknown, Verdict.EXECUTED, reason_code="found")
    decided = next(told)
    assert [step.state for step in decided.steps] == [StepState.RECONCILED_EXECUTED]
    assert decided.run.version == first.run.version + 1


def test_the_asyncio_client_watches_over_a_restart_too(own_place: Place) -> None:
    unknown = _stopped(own_place, own_place.client(), own_place.r1)

    async def watched() -> list[StepState]:
        async with own_place.async_client() as client:
            told = client.watch(own_place.r1)
            await anext(told)
            await asyncio.to_thread(own_place.server.stop)
            await asyncio.to_thread(own_place.server.start)
            reviewer = own_place.client("reviewer")
            reviewer.reconcile(unknown, Verdict.EXECUTED, reason_code="found")
            change = await asyncio.wait_for(anext(told), 30)
            return [step.state for step in change.steps]

    assert asyncio.run(watched()) == [StepState.RECONCILED_EXECUTED]
