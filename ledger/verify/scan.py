"""Reading the entries that nearly all entries are like, several times as fast as `read_entry`.

One regular expression for each event type, made from the same fields as the type's own reader,
spells out the canonical bytes of a whole entry: which members, in which order, of which form. What
matches it is an entry that `read_entry` accepts with the same fields; a test holds the two
together byte by byte. What does not match proves nothing: it is read the slow way.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass
from typing import Final

from ledger.core.body import Body, Field, fields_of
from ledger.core.entry import ENTRY_LENGTH_MAX, Entry
from ledger.core.errors import Malformed
from ledger.core.events import BODIES
from ledger.core.merkle import leaf_hash
from ledger.core.times import parse_time

_ID: Final = r"[A-Za-z0-9._:/@#-]{1,128}"
_HEX_32: Final = r"[0-9a-f]{32}"
_HEX_64: Final = r"[0-9a-f]{64}"
_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# Up to 15 digits are surely below 2**53; longer ones are read the slow way.
_INT: Final = r"(?:0|[1-9][0-9]{0,14})"
_POSITIVE: Final = r"[1-9][0-9]{0,14}"
_TIME: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z"
_MEDIA_TYPE: Final = r"[A-Za-z0-9.+-]{1,63}/[A-Za-z0-9.+-]{1,63}"
_TRACE: Final = r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_NEVER: Final = r"(?!)"

_ACTOR: Final = (
    r'\{"auth":"(?:mtls|jwt|embedded|internal)","id":"(' + _ID + r')",'
    r'"kind":"(?:runtime|human|confirmer|system)","role":"' + _ID + r'"\}'
)
_PAYLOAD: Final = (
    rf'\{{"alg":"sha256-salt32","commitment":"{_HEX_64}","id":"{_HEX_32}","key":"{_HEX_32}",'
    rf'"media_type":"{_MEDIA_TYPE}","name":"{_ID}"\}}'
)
_REQUEST: Final = rf'\{{"digest":"{_HEX_64}","id":"({_UUID})","part":({_INT})\}}'
_RUN: Final = rf'\{{"id":"({_ID})","prev":(?:null|"({_HEX_64})"),"version":({_INT})\}}'

_TYPE: Final = b',"type":"'


@dataclass(frozen=True, slots=True)
class Facts:
    """What the checks over entries ask of one entry. Times are microseconds since the epoch."""

    leaf: bytes
    type: str
    run: str
    prev: bytes | None
    version: int
    recorded_at_us: int
    request: bytes
    payloads: int


def facts_of(entry: Entry) -> Facts:
    """The facts of an entry that `read_entry` has read."""
    actor, request = entry.event["actor"], entry.event["request"]
    payloads = entry.event["payloads"]
    # Ids and UUIDs hold no space, so the three cannot run into each other.
    text = f"{actor['id']} {request['id']} {request['part']}"  # type: ignore[index,call-overload]
    return Facts(
        entry.leaf_hash,
        entry.type,
        entry.run_id,
        entry.prev,
        entry.version,
        entry.recorded_at_us,
        text.encode("ascii"),
        len(payloads) if isinstance(payloads, list) else 0,
    )


class Scanner:
    """Scans the entries of one log."""

    def __init__(self, origin: str) -> None:
        self._patterns = {
            name.encode("ascii"): re.compile(_pattern(body, origin).encode("ascii"))
            for name, body in BODIES.items()
        }

    def scan(self, raw: bytes, *, index: int) -> Facts | None:
        """The facts of the entry at `index`; None for whatever is not plainly one."""
        begin = raw.rfind(_TYPE) + len(_TYPE)
        event_type = raw[begin : raw.find(b'"', begin)]
        pattern = self._patterns.get(event_type)
        found = None if pattern is None else pattern.fullmatch(raw)
        if found is None or len(raw) > ENTRY_LENGTH_MAX:
            return None
        actor, *times, payloads, request, part, at, recorded, run, prev, version = found.groups()
        if int(at) != index or (prev is None) != (version == b"0"):
            return None
        try:
            recorded_at_us = parse_time(recorded.decode("ascii"))
            for time in times:
                parse_time(time.decode("ascii"))
        except Malformed:
            return None
        return Facts(
            leaf_hash(raw),
            event_type.decode("ascii"),
            run.decode("ascii"),
            None if prev is None else bytes.fromhex(prev.decode("ascii")),
            int(version),
            recorded_at_us,
            b"%b %b %b" % (actor, request, part),
            payloads.count(b'{"alg"'),
        )


def _pattern(body: type[Body], origin: str) -> str:
    return (
        rf'\{{"event":\{{"actor":{_ACTOR},"body":{_body(body)},'
        rf'"payloads":\[((?:{_PAYLOAD}(?:,{_PAYLOAD})*)?)\],"request":{_REQUEST},'
        rf'(?:"trace":"{_TRACE}",)?"type":"{re.escape(body.TYPE)}"\}},'
        rf'"index":({_INT}),"origin":"{re.escape(origin)}","recorded_at":"({_TIME})",'
        rf'"run":{_RUN},"v":"ledger-entry/1"\}}'
    )


def _body(body: type[Body]) -> str:
    """A body's members in canonical order. Each is followed by a comma or by the end."""
    members = []
    for field in sorted(fields_of(body), key=lambda field: field.member):
        member = rf'"{field.member}":{_value(field)}(?:,|(?=\}}))'
        members.append(member if field.absent is MISSING else f"(?:{member})?")
    return r"\{" + "".join(members) + r"(?<!,)\}"


def _value(field: Field) -> str:
    """A value that may be written: never the one that stands for absence."""
    match field.kind.name:
        case "Id":
            return f'"{_ID}"'
        case "Name":
            return r'"[a-z0-9.-]{1,63}(?:/[a-z0-9._-]{1,63}){0,2}"'  # longer ones are read slowly
        case "Int":
            return _POSITIVE if field.absent == 0 else _INT
        case "Positive":
            return _POSITIVE
        case "Time":
            # An optional time would leave its group empty; none exists, and it is read slowly.
            return f'"({_TIME})"' if field.absent is MISSING else _NEVER
        case "Flag":
            return "1"
        case "Ids":
            return rf'\["{_ID}"(?:,"{_ID}"){{0,63}}\]'
        case "Labels":
            return _NEVER  # their order is not for a regular expression to check
        case _:
            words = field.kind.schema["enum"]
            kept = [word for word in words if word != field.absent]  # type: ignore[union-attr]
            return '"(?:' + "|".join(re.escape(str(word)) for word in kept) + ')"'
