"""Checks of single fields. Each raises `Malformed` (or `LimitPassed`) with the field's path.

Nothing here repeats an offending value: it may be secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

from google.protobuf.duration_pb2 import Duration

from ledger.core.canonical import INT_MAX
from ledger.core.commands import Payload
from ledger.core.errors import Malformed
from ledger.core.ids import ProcessNonce, RequestId, SubjectId, client_id, media_type, request_id
from ledger.core.vocabulary import EffectClass, Outcome, RunStatus, Verdict
from ledger.head_seen import HeadSeen
from ledger.limits import Limits
from ledger.service.faults import LimitPassed
from ledger.v1 import review_service_pb2, types_pb2

_Name = TypeVar("_Name")
_Word = TypeVar("_Word")

# Equal to what `client_id` lets through (a test holds it); most calls end at this one match.
_is_client_id: Final = re.compile(r"(?!_)[A-Za-z0-9._:/@#-]{1,128}").fullmatch
_PROCESS: Final = re.compile(r"[A-Za-z0-9._:/@#-]{16,64}")
_NO_SUBJECT: Final = SubjectId("")
_OCTETS: Final = "application/octet-stream"
_MISSING: Final = "is missing"
_LEAF_BYTES: Final = 32
_INT32_MAX: Final = 2**31 - 1

EFFECT_CLASSES: Final[Mapping[int, EffectClass]] = {
    types_pb2.EFFECT_CLASS_READ_ONLY: EffectClass.READ_ONLY,
    types_pb2.EFFECT_CLASS_PROPOSE: EffectClass.PROPOSE,
    types_pb2.EFFECT_CLASS_IDEMPOTENT_WRITE: EffectClass.IDEMPOTENT_WRITE,
    types_pb2.EFFECT_CLASS_NON_IDEMPOTENT_WRITE: EffectClass.NON_IDEMPOTENT_WRITE,
}
OUTCOMES: Final[Mapping[int, Outcome]] = {
    types_pb2.OUTCOME_SUCCEEDED: Outcome.SUCCEEDED,
    types_pb2.OUTCOME_FAILED: Outcome.FAILED,
    types_pb2.OUTCOME_NO_EFFECT: Outcome.NO_EFFECT,
}
RUN_STATUSES: Final[Mapping[int, RunStatus]] = {
    types_pb2.RUN_STATUS_COMPLETED: RunStatus.COMPLETED,
    types_pb2.RUN_STATUS_FAILED: RunStatus.FAILED,
    types_pb2.RUN_STATUS_CANCELLED: RunStatus.CANCELLED,
}
VERDICTS: Final[Mapping[int, Verdict]] = {
    review_service_pb2.VERDICT_EXECUTED: Verdict.EXECUTED,
    review_service_pb2.VERDICT_NOT_EXECUTED: Verdict.NOT_EXECUTED,
}


def required_id(make: Callable[[str], _Name], text: str, path: str) -> _Name:
    """An id that must be there."""
    if _is_client_id(text):
        return make(text)
    if not text:
        raise Malformed(path, _MISSING)
    return client_id(make, text, path=path)


def optional_id(make: Callable[[str], _Name], text: str, path: str) -> _Name:
    """An id, or the empty one."""
    return required_id(make, text, path) if text else make(text)


def required_request_id(text: str, path: str = "request_id") -> RequestId:
    """A lower-case UUID."""
    if not text:
        raise Malformed(path, _MISSING)
    return request_id(text, path=path)


def required_process(text: str, path: str = "process") -> ProcessNonce:
    """A process nonce: 16 to 64 id characters. It may begin with `_`, as random text does."""
    if not text:
        raise Malformed(path, _MISSING)
    if not _PROCESS.fullmatch(text):
        raise Malformed(path, "is not a nonce: 16 to 64 of A-Z a-z 0-9 . _ : / @ # -")
    return ProcessNonce(text)


def required_word(known: Mapping[int, _Word], number: int, path: str) -> _Word:
    """A value of an enum; proto3 hands over unknown numbers, which are refused."""
    if number == 0:
        raise Malformed(path, _MISSING)
    return _word(known, number, path)


def optional_word(known: Mapping[int, _Word], number: int, path: str) -> _Word | None:
    """A value of an enum, or None where it is unset."""
    return None if number == 0 else _word(known, number, path)


def _word(known: Mapping[int, _Word], number: int, path: str) -> _Word:
    word = known.get(number)
    if word is None:
        raise Malformed(path, f"is {number}, which is no value known here")
    return word


def required_count(number: int, path: str) -> int:
    """A token or index that is never 0: 1 to 2**53-1."""
    if number == 0:
        raise Malformed(path, _MISSING)
    return optional_count(number, path)


def optional_count(number: int, path: str) -> int:
    """0 to 2**53-1, which is what an entry can hold."""
    if not 0 <= number <= INT_MAX:
        raise Malformed(path, "is not in 0 to 2^53-1")
    return number


def head_seen(message: Any, path: str = "last_head_seen") -> HeadSeen | None:
    """What a request says of the log's head, None where it says nothing."""
    if not message.HasField("last_head_seen"):
        return None
    seen = message.last_head_seen
    size = required_count(seen.size, f"{path}.size")
    if len(seen.leaf_hash) != _LEAF_BYTES:
        raise Malformed(f"{path}.leaf_hash", f"is not the {_LEAF_BYTES} bytes of a leaf hash")
    return HeadSeen(size, seen.leaf_hash)


def required_attempt(number: int, path: str = "attempt") -> int:
    """An attempt's number, from 1."""
    if number == 0:
        raise Malformed(path, _MISSING)
    if not 1 <= number <= _INT32_MAX:
        raise Malformed(path, "is not the number of an attempt: they count from 1")
    return number


def duration_ms(duration: Duration, path: str, *, ms_min: int, ms_max: int) -> int:
    """A duration in whole milliseconds within its limits, both included."""
    seconds, nanos = duration.seconds, duration.nanos
    if not 0 <= nanos < 1_000_000_000:
        raise Malformed(f"{path}.nanos", "is not in 0 to 999,999,999")
    if nanos % 1_000_000:
        raise Malformed(path, "is not a whole number of milliseconds")
    ms = seconds * 1_000 + nanos // 1_000_000
    if not ms_min <= ms <= ms_max:
        raise LimitPassed(path, f"is not between {ms_min / 1000:g} s and {ms_max / 1000:g} s")
    return ms


def require_at_most(items: Sequence[object] | Mapping[str, str], most: int, path: str) -> None:
    """Looks at the number only, before any item is read."""
    if len(items) > most:
        raise LimitPassed(path, f"has {len(items):,} items, at most {most:,} are allowed")


def payload(message: types_pb2.Payload, path: str, limits: Limits) -> Payload:
    """The caller's bytes as they are. Empty content is content: a tool may return nothing."""
    content = message.content
    if len(content) > limits.payload_bytes_max:
        raise LimitPassed(
            f"{path}.content",
            f"has {len(content):,} bytes, at most {limits.payload_bytes_max:,} are allowed",
        )
    kind, subject = message.media_type, message.subject
    return Payload(
        content,
        _media_type(kind, path) if kind else _OCTETS,
        required_id(SubjectId, subject, f"{path}.subject") if subject else _NO_SUBJECT,
    )


@lru_cache(maxsize=256)
def _is_media_type(kind: str) -> bool:
    """Remembered: callers send the same few."""
    try:
        media_type(kind, path="media_type")
    except Malformed:
        return False
    return True


def _media_type(kind: str, path: str) -> str:
    if _is_media_type(kind):
        return kind
    return media_type(kind, path=f"{path}.media_type")


def payloads(
    messages: Sequence[types_pb2.Payload], path: str, limits: Limits
) -> tuple[Payload, ...]:
    """A list of evidence."""
    require_at_most(messages, limits.evidence_max, path)
    return tuple(payload(message, f"{path}[{at}]", limits) for at, message in enumerate(messages))
