"""Submitting commands and filling their answers in: one path for unary calls and for Submit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import grpc
from google.rpc.status_pb2 import Status

from ledger.core.answers import Answered, Replay
from ledger.core.commands import StartStep
from ledger.core.errors import InvariantViolation, Malformed
from ledger.core.log import Log
from ledger.core.refusals import Refused
from ledger.failures import Failure, FailureKind
from ledger.service import statuses
from ledger.service.boundary import Call, Ended
from ledger.service.calls import House
from ledger.service.decode import IN_SUBMIT, Decoded, Method, decode_submit, decode_unary
from ledger.service.encode import NO_EXTRAS, Extras, answer_message
from ledger.store.errors import StoreError
from ledger.v1 import run_service_pb2 as pb

_FIELD_OF: Final = {method.name: field for field, method in IN_SUBMIT.items()}


@dataclass(frozen=True, slots=True)
class _Asked:
    """An answered command, and what its answer still needs."""

    at: int
    decoded: Decoded
    answered: Answered


class Submitter:
    """The commands of all services."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def unary(self, method: Method, call: Call, octets: bytes) -> bytes:
        """One command; a refusal or failure ends the call."""
        log = await self._house.log_of(call)
        decoded = decode_unary(method, octets, self._house.asking(call, log))
        await self._house.require_head(log, decoded.head_seen)
        outcome = (await self._house.submitting.submit([decoded.request]))[0]
        self._house.acknowledge(log, outcome)
        await self._house.tell_rewound(log, decoded.head_seen, [outcome])
        refused = _status_of(outcome)
        if refused is not None:
            raise Ended(refused)
        assert isinstance(outcome, Answered)  # noqa: S101 - narrows what _status_of has told
        asked = _Asked(0, decoded, outcome)
        extras = await self._extras(call, log, [asked]) if _needs_reading(asked) else {}
        filled = extras.get(0, NO_EXTRAS)
        if isinstance(filled, Status):
            raise Ended(filled)
        return answer_message(method.name, outcome, filled).SerializeToString()

    async def submit(self, call: Call, octets: bytes) -> bytes:
        """Many commands; each one's refusal or failure is its own answer."""
        log = await self._house.log_of(call)
        decoded = decode_submit(octets, self._house.asking(call, log))
        taken = [one for one in decoded if isinstance(one, Decoded)]
        outcomes = iter(await self._submit_all(log, taken) if taken else ())
        answers = [
            statuses.malformed_status(one) if isinstance(one, Malformed) else next(outcomes)
            for one in decoded
        ]
        asked = [
            _Asked(at, one, answer)
            for at, (one, answer) in enumerate(zip(decoded, answers, strict=True))
            if isinstance(one, Decoded) and isinstance(answer, Answered)
        ]
        needing = [one for one in asked if _needs_reading(one)]
        extras = await self._extras(call, log, needing) if needing else {}
        response = pb.SubmitResponse()
        for at, (one, answer) in enumerate(zip(decoded, answers, strict=True)):
            result = response.results.add()
            filled = extras.get(at, NO_EXTRAS)
            status = _status_of(answer) or _status_of(filled)
            if status is not None:
                result.error.CopyFrom(status)
                continue
            _fill(result, one, answer, filled)
        call.facts["commands"] = len(decoded)
        return response.SerializeToString()

    async def _submit_all(self, log: Log, taken: Sequence[Decoded]) -> list[Answered | Failure]:
        """The message says once what its client saw, so the first command speaks for all."""
        await self._house.require_head(log, taken[0].head_seen)
        outcomes = await self._house.submitting.submit([one.request for one in taken])
        for outcome in outcomes:
            self._house.acknowledge(log, outcome)
        await self._house.tell_rewound(log, taken[0].head_seen, outcomes)
        return outcomes

    async def _extras(
        self, call: Call, log: Log, asked: Sequence[_Asked]
    ) -> dict[int, Extras | Status]:
        """Runs, results and receipts, read in one go. What was appended stays appended: where they
        cannot be read now, the answers say so and the same requests may be sent again."""
        try:
            return await self._house.read(lambda: self._read(call, log, asked))
        except StoreError:
            failed = statuses.failure_status(Failure(FailureKind.MAYBE_COMMITTED, 1_000))
            return {one.at: failed for one in asked}

    def _read(self, call: Call, log: Log, asked: Sequence[_Asked]) -> dict[int, Extras | Status]:
        wanted = [one for one in asked if one.decoded.wants_receipt and one.answered.append]
        indexes = [one.answered.append.index for one in wanted if one.answered.append]
        receipts = self._house.entries.receipts(log, indexes) if indexes else {}
        found: dict[int, Extras | Status] = {}
        room = self._house.limits.answer_bytes_max
        for one in asked:
            extras = self._read_one(call, log, one, receipts)
            room -= len(extras.content.content) + len(extras.receipt)
            found[one.at] = extras if room >= 0 or len(asked) == 1 else _no_room()
        return found

    def _read_one(self, call: Call, log: Log, asked: _Asked, receipts: dict[int, bytes]) -> Extras:
        append, answer = asked.answered.append, asked.answered.answer
        receipt = ""
        if asked.decoded.wants_receipt and append is not None:
            receipt = receipts[append.index].decode("utf-8")
        match answer:
            case Replay():
                command = asked.decoded.request.command
                own = isinstance(command, StartStep) and command.run == answer.run
                content = self._house.runs.result(log, call.caller, answer, own_run=own)
                return Extras(content=content, receipt=receipt)
            case _:
                return Extras(receipt=receipt)


def _needs_reading(asked: _Asked) -> bool:
    if isinstance(asked.answered.answer, Replay):
        return True
    return asked.decoded.wants_receipt and asked.answered.append is not None


def _fill(
    result: pb.CommandResult, one: Decoded | Malformed, answer: object, extras: Extras | Status
) -> None:
    if not isinstance(one, Decoded) or not isinstance(answer, Answered):
        raise InvariantViolation("a command without a status was not answered")
    if isinstance(extras, Status):
        raise InvariantViolation("a status is an answer of its own")
    method = one.request.method
    message = answer_message(method, answer, extras)
    getattr(result, _FIELD_OF[method]).CopyFrom(message)


def _status_of(outcome: object) -> Status | None:
    """The status of what is no answer: a refusal, a failure, or a status already."""
    match outcome:
        case Answered(answer=Refused() as refused):
            return statuses.refusal_status(refused)
        case Failure():
            return statuses.failure_status(outcome)
        case Status():
            return outcome
        case _:
            return None


def _no_room() -> Status:
    return statuses.make_status(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "ANSWER_TOO_LARGE",
        "The stored results of this message's commands do not fit one answer. The command was "
        "decided and may have been recorded. Send it again, alone, with the same request id.",
        {"durability": statuses.MAYBE_COMMITTED},
    )
