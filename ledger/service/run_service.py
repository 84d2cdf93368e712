"""`ledger.v1.RunService` and `ledger.v1.ReviewService`: each call from bytes to bytes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from functools import partial

from ledger.core.ids import RunId
from ledger.service import decode_runs, encode
from ledger.service.boundary import Call, Streaming, Unary
from ledger.service.calls import House, answered, index_of
from ledger.service.decode import METHODS
from ledger.service.encode_views import (
    resume_step_message,
    run_message,
    step_message,
    unknown_message,
)
from ledger.service.fields import (
    head_seen,
    optional_id,
    required_count,
    required_id,
    required_process,
)
from ledger.service.submitting import Submitter
from ledger.v1 import review_service_pb2 as review_pb
from ledger.v1 import run_service_pb2 as pb

RUN_SERVICE = "ledger.v1.RunService"
REVIEW_SERVICE = "ledger.v1.ReviewService"
REVIEWED = ("ListUnknowns", "Reconcile", "ProposeDecision", "AllowDowngrade")

_BY_ORDINAL = (int,)
_BY_CHANGE = (int, str)
_BY_RANK = (int, int, str, str)


class RunCalls:
    """The calls on runs and decisions."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._submitter = Submitter(house)

    def mutating(self) -> dict[str, Unary]:
        """Every call that appends, by its method's name."""
        calls: dict[str, Unary] = {
            name: partial(self._submitter.unary, method) for name, method in METHODS.items()
        }
        return calls | {"Submit": self._submitter.submit, "RenewLease": self.renew_lease}

    def reading(self) -> dict[str, Unary]:
        """Every call that only reads."""
        return {
            "GetResumeState": self.get_resume_state,
            "GetRun": self.get_run,
            "ListRuns": self.list_runs,
            "ListUnknowns": self.list_unknowns,
        }

    def streaming(self) -> dict[str, Streaming]:
        """Every call that streams."""
        return {"WatchRun": self.watch_run}

    async def renew_lease(self, call: Call, octets: bytes) -> bytes:
        """RenewLease."""
        message = self._house.parse(pb.RenewLeaseRequest, octets)
        command = decode_runs.renew_lease(
            message, self._house.asking(call, await self._house.log_of(call))
        )
        granted = answered(await self._house.submitting.renew(call.caller, command))
        return encode.renew_message(granted).SerializeToString()

    async def get_resume_state(self, call: Call, octets: bytes) -> bytes:
        """GetResumeState."""
        house = self._house
        message = house.parse(pb.GetResumeStateRequest, octets)
        run = required_id(RunId, message.run, "run")
        token = required_count(message.token, "token")
        process = required_process(message.process)
        page = house.page(
            message.page_size, message.page_token, _BY_ORDINAL, default=house.limits.page_max
        )
        seen = head_seen(message)
        log = await house.log_of(call)
        await house.require_head(log, seen, for_read=True)
        bytes_max = house.limits.answer_bytes_max
        found = answered(
            await house.read(
                lambda: house.runs.resume(
                    log, run, page, token=token, process=process, bytes_max=bytes_max
                )
            )
        )
        return pb.GetResumeStateResponse(
            run=run_message(found.view),
            steps=[resume_step_message(step) for step in found.steps],
            next_page_token=found.next_token,
        ).SerializeToString()

    async def get_run(self, call: Call, octets: bytes) -> bytes:
        """GetRun."""
        house = self._house
        message = house.parse(pb.GetRunRequest, octets)
        run = required_id(RunId, message.run, "run")
        page = house.page(message.page_size, message.page_token, _BY_ORDINAL)
        log = await house.log_of(call)
        found = answered(await house.read(lambda: house.runs.run(log, run, page)))
        return pb.GetRunResponse(
            run=run_message(found.view),
            steps=[step_message(step) for step in found.steps],
            next_page_token=found.next_token,
        ).SerializeToString()

    async def list_runs(self, call: Call, octets: bytes) -> bytes:
        """ListRuns."""
        house = self._house
        message = house.parse(pb.ListRunsRequest, octets)
        page = house.page(message.page_size, message.page_token, _BY_CHANGE)
        open_only = message.open_only
        log = await house.log_of(call)
        found = await house.read(lambda: house.runs.runs(log, page, open_only=open_only))
        return pb.ListRunsResponse(
            runs=[run_message(view) for view in found.runs], next_page_token=found.next_token
        ).SerializeToString()

    async def list_unknowns(self, call: Call, octets: bytes) -> bytes:
        """ListUnknowns."""
        house = self._house
        message = house.parse(review_pb.ListUnknownsRequest, octets)
        run = optional_id(RunId, message.run, "run")
        page = house.page(message.page_size, message.page_token, _BY_RANK)
        log = await house.log_of(call)
        found = await house.read(lambda: house.runs.unknowns(log, page, run=run))
        return review_pb.ListUnknownsResponse(
            unknowns=[unknown_message(unknown) for unknown in found.unknowns],
            next_page_token=found.next_token,
        ).SerializeToString()

    async def watch_run(self, call: Call, octets: bytes) -> AsyncIterator[bytes]:
        """WatchRun: the present state, or what is above the version named, then every change."""
        house = self._house
        message = house.parse(pb.WatchRunRequest, octets)
        run = required_id(RunId, message.run, "run")
        after = index_of(message.after_version, "after_version")
        log = await house.log_of(call)
        since = after or None
        with house.streams.place():
            while True:
                seen, looked_s = house.streams.look(), time.monotonic()
                found = await house.read(partial(house.runs.changes, log, run, since=since))
                if found is not None:
                    changed = answered(found)
                    since = changed.view.run.version - 1
                    yield pb.WatchRunResponse(
                        run=run_message(changed.view),
                        steps=[step_message(step) for step in changed.steps],
                    ).SerializeToString()
                await house.streams.wait(seen=seen, looked_s=looked_s)
