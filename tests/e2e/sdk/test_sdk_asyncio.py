"""The asyncio client on a real server: the same core, and what only asyncio has."""

from __future__ import annotations

import asyncio

import pytest

from ledger.client import (
    AsyncEffect,
    AsyncLedger,
    AuditNotRecorded,
    DeadlineOverrun,
    OutcomeUnknown,
    RunStatus,
    Step,
    StepState,
)
from tests.e2e.sdk.agent import PAY
from tests.e2e.sdk.conftest import Place


async def break_off(client: AsyncLedger, run_id: str, *, timeout_s: float) -> None:
    """Drive a run into its payment and stay there until its deadline ends it."""
    async with client.run(run_id, holder="shop") as run:
        await run.plan([PAY])
        async with run.effect("s1", timeout_s=timeout_s):
            await asyncio.Event().wait()


async def lose_the_report(place: Place, client: AsyncLedger) -> None:
    """Drive run r1 to a report that nobody acknowledges."""
    async with client.run(place.r1, holder="shop") as run:
        await run.plan([PAY])
        async with run.effect("s1") as effect:
            place.server.kill()
            await effect.succeeded()


async def run_again(client: AsyncLedger, run_id: str) -> None:
    """Resume a run and ask for its payment once more; the tool must not run."""
    async with client.resume(run_id, holder="heir") as run, run.effect("s1"):
        raise AssertionError("the tool was run again")


async def test_an_asyncio_run_records_what_a_blocking_one_does(place: Place) -> None:
    async with place.async_client() as client:
        async with client.run(place.r1, holder="shop") as run:

            @run.tool(version="1")
            async def pay(effect: AsyncEffect, *, amount: int) -> object:
                await asyncio.sleep(0)  # pause: a tool gives the loop a turn
                return {"paid": amount, "attempt": effect.attempt}

            first = await pay("s1", amount=12)
            assert await pay("s1", amount=12) == first == {"paid": 12, "attempt": 1}
        assert (await client.get_run(place.r1)).run.status is RunStatus.COMPLETED
    assert place.types(place.r1) == [
        "run.opened",
        "lease.acquired",
        "step.planned",
        "step.started",
        "step.completed",
        "run.closed",
    ]


async def test_a_body_is_cancelled_at_its_deadline_and_recorded_unknown(place: Place) -> None:
    async with place.async_client() as client:
        with pytest.raises(DeadlineOverrun):
            await break_off(client, place.r1, timeout_s=1)
        (unknown,) = place.client("reviewer").unknowns(run=place.r1)
        assert unknown.cause == "timeout"
        with pytest.raises(OutcomeUnknown):
            await run_again(client, place.r1)


async def test_a_cancelled_task_leaves_its_write_unknown(place: Place) -> None:
    async with place.async_client() as client:
        started = asyncio.Event()

        async def agent() -> None:
            async with client.run(place.r1, holder="shop") as run:
                await run.plan([PAY])
                async with run.effect("s1"):
                    started.set()
                    await asyncio.Event().wait()

        task = asyncio.create_task(agent())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert place.types(place.r1)[-2:] == ["step.unknown", "lease.released"]


async def test_a_cancellation_does_not_cut_off_a_report(place: Place) -> None:
    async with place.async_client() as client:
        started = asyncio.Event()

        async def agent() -> None:
            async with client.run(place.r1, holder="shop") as run:
                await run.plan([PAY])
                async with run.effect("s1") as effect:
                    started.set()
                    await effect.succeeded("done")

        task = asyncio.create_task(agent())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (step,) = (await client.get_run(place.r1)).steps
    assert step.state is StepState.SUCCEEDED


async def test_a_renewed_lease_outlives_its_time_to_live(place: Place) -> None:
    async with place.async_client() as client, client.run(place.r1, holder="shop", ttl_s=5) as run:
        await run.plan([PAY])
        first = (await client.get_run(place.r1)).run.lease
        assert first is not None
        async with asyncio.timeout(20):
            while True:
                lease = (await client.get_run(place.r1)).run.lease
                assert lease is not None
                assert lease.live
                assert first.expires_at is not None
                assert lease.expires_at is not None
                if (lease.expires_at - first.expires_at).total_seconds() > 5:
                    break
                await asyncio.sleep(0.1)  # pause: between two looks at the lease
        async with run.effect("s1") as effect:
            await effect.succeeded()
    assert "lease.expired" not in place.types(place.r1)


async def test_an_outage_keeps_the_run_open_in_asyncio_too(own_place: Place) -> None:
    async with own_place.async_client(deadline_s=3) as client:
        with pytest.raises(AuditNotRecorded):
            await lose_the_report(own_place, client)
    own_place.server.start()
    assert "run.closed" not in own_place.types(own_place.r1)


async def test_ready_steps_and_pages_are_iterated(place: Place) -> None:
    async with place.async_client() as client:
        async with client.run(place.r1, holder="shop") as run:
            await run.plan([Step(f"s{n}", "t", "1", {"n": n}) for n in range(5)])
            ready = []
            async for step in run.ready_steps():
                ready.append(step.step)
                async with run.effect(step.step) as effect:
                    await effect.succeeded(step.arguments.json())
            assert ready == [f"s{n}" for n in range(5)]
        assert place.r1 in [each.run async for each in client.runs()]
    assert len([entry async for entry in place.async_client("admin").entries()]) > 10
