"""The closed schema of an entry's envelope (formats, section 1): which members, of which kind.

What stands in `event.body` belongs to the event's type and is checked elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from ledger.core import ids
from ledger.core.canonical import JsonObject, JsonValue, member_path
from ledger.core.errors import Malformed
from ledger.core.ids import Origin, RunId

ENTRY_VERSION: Final = "ledger-entry/1"
AUTH_KINDS: Final = frozenset({"mtls", "jwt", "embedded", "internal"})
ACTOR_KINDS: Final = frozenset({"runtime", "human", "confirmer", "system"})
COMMITMENT_ALGORITHM: Final = "sha256-salt32"

_ENTRY: Final = frozenset({"event", "index", "origin", "recorded_at", "run", "v"})
_RUN: Final = frozenset({"id", "prev", "version"})
_EVENT: Final = frozenset({"actor", "body", "payloads", "request", "type"})
_EVENT_TRACED: Final = _EVENT | {"trace"}
_ACTOR: Final = frozenset({"auth", "id", "kind", "role"})
_REQUEST: Final = frozenset({"digest", "id", "part"})
_PAYLOAD: Final = frozenset({"alg", "commitment", "id", "key", "media_type", "name"})

_TYPE: Final = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")
# W3C Trace Context, section 3.2: version 00; all-zero ids are invalid there.
_TRACE: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class EntryMembers:
    """The envelope's members, each of its right kind and form."""

    event: JsonObject
    index: int
    origin: Origin
    recorded_at: str
    run_id: RunId
    prev: bytes | None
    version: int


def check_entry_members(
    entry: JsonObject, check_body: Callable[[str, JsonObject], None] | None
) -> EntryMembers:
    """Check the envelope, and the body where `check_body` is given. Raises `Malformed`."""
    _require_members(entry, _ENTRY, "$")
    if entry["v"] != ENTRY_VERSION:
        raise Malformed("$.v", "is not an entry version known here")
    event = object_at(entry, "event", "$")
    check_event(event, check_body, path="$.event")
    run = object_at(entry, "run", "$")
    _require_members(run, _RUN, "$.run")
    prev = run["prev"]
    if prev is not None:
        prev = text_at(run, "prev", "$.run")
    return EntryMembers(
        event=event,
        index=integer_at(entry, "index", "$"),
        origin=ids.origin(text_at(entry, "origin", "$")),
        recorded_at=text_at(entry, "recorded_at", "$"),
        run_id=ids.any_id(RunId, text_at(run, "id", "$.run"), path="$.run.id"),
        prev=None if prev is None else ids.hash_bytes(prev, path="$.run.prev"),
        version=integer_at(run, "version", "$.run"),
    )


def check_event(
    event: JsonObject,
    check_body: Callable[[str, JsonObject], None] | None = None,
    *,
    path: str = "$",
) -> None:
    """Check an event's envelope, and its body where `check_body` is given. Raises `Malformed`."""
    _require_members(event, _EVENT_TRACED if "trace" in event else _EVENT, path)
    event_type = text_at(event, "type", path)
    if not _TYPE.fullmatch(event_type):
        raise Malformed(f"{path}.type", "is not noun.verb in lower case")
    _check_actor(object_at(event, "actor", path), f"{path}.actor")
    _check_request(object_at(event, "request", path), f"{path}.request")
    payloads = event["payloads"]
    if type(payloads) is not list:
        raise Malformed(f"{path}.payloads", "is not an array")
    for position, payload in enumerate(payloads):
        _check_payload(payload, f"{path}.payloads[{position}]")
    if "trace" in event and not _TRACE.fullmatch(text_at(event, "trace", path)):
        raise Malformed(f"{path}.trace", "is not a traceparent of version 00")
    body = object_at(event, "body", path)
    if check_body is not None:
        check_body(event_type, body)


def text_at(members: JsonObject, name: str, path: str) -> str:
    """The string at a member. Raises `Malformed` where it is missing or of another kind."""
    value = members.get(name)
    if type(value) is not str:
        _refuse_kind(value, path, name, "a string")
    return value


def integer_at(members: JsonObject, name: str, path: str) -> int:
    """The integer at a member. Raises `Malformed` where it is missing or of another kind."""
    value = members.get(name)
    if type(value) is not int:
        _refuse_kind(value, path, name, "an integer")
    return value


def object_at(members: JsonObject, name: str, path: str) -> JsonObject:
    """The object at a member. Raises `Malformed` where it is missing or of another kind."""
    value = members.get(name)
    if type(value) is not dict:
        _refuse_kind(value, path, name, "an object")
    return value


def _check_actor(actor: JsonObject, path: str) -> None:
    _require_members(actor, _ACTOR, path)
    if text_at(actor, "auth", path) not in AUTH_KINDS:
        raise Malformed(f"{path}.auth", "is none of mtls, jwt, embedded, internal")
    if text_at(actor, "kind", path) not in ACTOR_KINDS:
        raise Malformed(f"{path}.kind", "is none of runtime, human, confirmer, system")
    _check_id(actor, "id", path)
    _check_id(actor, "role", path)


def _check_request(request: JsonObject, path: str) -> None:
    _require_members(request, _REQUEST, path)
    ids.hash_bytes(text_at(request, "digest", path), path=f"{path}.digest")
    ids.request_id(text_at(request, "id", path), path=f"{path}.id")
    integer_at(request, "part", path)


def _check_payload(payload: JsonValue, path: str) -> None:
    if type(payload) is not dict:
        raise Malformed(path, "is not an object")
    _require_members(payload, _PAYLOAD, path)
    if payload["alg"] != COMMITMENT_ALGORITHM:
        raise Malformed(f"{path}.alg", f"is not {COMMITMENT_ALGORITHM}")
    ids.hash_bytes(text_at(payload, "commitment", path), path=f"{path}.commitment")
    ids.hex_32(ids.PayloadId, text_at(payload, "id", path), path=f"{path}.id")
    ids.hex_32(ids.DataKeyId, text_at(payload, "key", path), path=f"{path}.key")
    ids.media_type(text_at(payload, "media_type", path), path=f"{path}.media_type")
    _check_id(payload, "name", path)


def _check_id(members: JsonObject, name: str, path: str) -> None:
    ids.any_id(str, text_at(members, name, path), path=f"{path}.{name}")


def _require_members(members: JsonObject, names: frozenset[str], path: str) -> None:
    """Exactly these members: an unknown one is refused as surely as a missing one."""
    if members.keys() == names:
        return
    for name in members:
        if name not in names:
            raise Malformed(member_path(path, name), "is not a member known here")
    missing = min(names - members.keys())
    raise Malformed(f"{path}.{missing}", "is missing")


def _refuse_kind(value: JsonValue, path: str, name: str, wanted: str) -> NoReturn:
    raise Malformed(member_path(path, name), "is missing" if value is None else f"is not {wanted}")
