"""The bytes a caller sends: structured values as RFC 8785 JSON, or raw bytes with a media type."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ledger.client.errors import InvalidRequest, Violation
from ledger.client.values import Json
from ledger.core.arguments import encode_arguments
from ledger.core.errors import Malformed

JSON_TYPE: Final = "application/json"
OMITTED_TYPE: Final = "application/vnd.ledger.omitted+json;version=1"


@dataclass(frozen=True, slots=True)
class Payload:
    """Exact bytes with their RFC 2045 media type; kept and committed to as they are.

    `subject` is the opaque id of the data subject whose key seals it; empty means the run's.
    """

    content: bytes = field(repr=False)
    media_type: str = "application/octet-stream"
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Absent:
    """No payload at all, which is not the same as JSON null."""


ABSENT: Final = Absent()
Content: TypeAlias = "Json | Payload"
"""What may be sent: any JSON value, or raw bytes wrapped in `Payload`."""


def payload_from(content: object, *, path: str, depth_max: int) -> Payload:
    """The payload of a value: a `Payload` as it is, anything else as RFC 8785 JSON.

    Raises `InvalidRequest` naming the path of what JSON cannot carry exactly: bytes, dates,
    decimals, NaN, integers beyond 2**53-1, lone surrogates, keys that are not strings, nesting
    beyond `depth_max`.
    """
    if isinstance(content, Payload):
        return content
    try:
        encoded = encode_arguments(content, depth_max=depth_max)
    except Malformed as fault:
        place = path + fault.path.removeprefix("$")
        raise InvalidRequest(Violation(place, fault.reason)) from None
    return Payload(encoded, JSON_TYPE)


def omitted(content: object, *, fault: Violation) -> Payload:
    """A marker in place of a result that cannot be stored: why, and size and digest where it has
    bytes.

    An outcome must never be lost because of its result.
    """
    raw = content.content if isinstance(content, Payload) else None
    if raw is None:
        try:
            raw = encode_arguments(content)
        except Malformed:
            raw = None
    marker: dict[str, Json] = {"omitted": fault.fault, "path": fault.field}
    if raw is not None:
        marker |= {"sha256": hashlib.sha256(raw).hexdigest(), "size": len(raw)}
    return Payload(encode_arguments(marker), OMITTED_TYPE)


def error_note(error: BaseException) -> Payload:
    """What is known of an attempt that ended by an exception: its type and text, at most 4,000
    characters.
    """
    text = str(error)[:4_000].encode("utf-8", "backslashreplace").decode("utf-8")
    kind = type(error).__qualname__
    return Payload(encode_arguments({"error": kind, "text": text}), JSON_TYPE)
