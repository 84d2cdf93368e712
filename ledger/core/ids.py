"""Names, keys and UUIDs, and the rules that each must meet.

`NewType`s keep a step id from being handed over as a run id; the functions that make them are the
only place where outside text becomes one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Final, NewType, TypeVar

from ledger.core.errors import Malformed

Tenant = NewType("Tenant", str)
Origin = NewType("Origin", str)
RunId = NewType("RunId", str)
StepId = NewType("StepId", str)
ToolName = NewType("ToolName", str)
ToolVersion = NewType("ToolVersion", str)
PrincipalId = NewType("PrincipalId", str)
HolderName = NewType("HolderName", str)
ProcessNonce = NewType("ProcessNonce", str)
SubjectId = NewType("SubjectId", str)
RequestId = NewType("RequestId", str)
"""A lower-case UUID, made by the client."""
Key = NewType("Key", str)
"""An idempotency key as it stands in an entry (rules, section 5), never the caller's own bytes."""
DataKeyId = NewType("DataKeyId", str)
PayloadId = NewType("PayloadId", str)
MediaType = NewType("MediaType", str)

LOG_RUN: Final = RunId("_log")
"""The reserved run of the entries that belong to no run."""
LEDGER_ACTOR: Final = PrincipalId("_ledger")
"""The actor of the events that the ledger makes itself."""

ID_LENGTH_MAX: Final = 128
ORIGIN_LENGTH_MAX: Final = 255
KEY_LENGTH_MAX: Final = 255

_ID: Final = re.compile(r"[A-Za-z0-9._:/@#-]{1,128}")
_ORIGIN: Final = re.compile(r"[a-z0-9.-]+(/[a-z0-9._-]+)*")
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HEX_32: Final = re.compile(r"[0-9a-f]{32}")
_HEX_64: Final = re.compile(r"[0-9a-f]{64}")
# RFC 2045 section 5.1 tokens; a parameter's value is a token or a quoted string (RFC 822).
_MIME_WORD: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z{}-]+"
_QUOTED: Final = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
_MEDIA_TYPE: Final = re.compile(
    rf"{_MIME_WORD}/{_MIME_WORD}(?: ?; ?{_MIME_WORD}=(?:{_MIME_WORD}|{_QUOTED}))*"
)

_Name = TypeVar("_Name")
_DERIVED_KEY: Final = "d:"
_HIDDEN_KEY: Final = "x:"


def any_id(make: Callable[[str], _Name], text: str, *, path: str) -> _Name:
    """An id as an entry may hold it: 1 to 128 of `A-Za-z0-9._:/@#-`. Raises `Malformed`."""
    if not _ID.fullmatch(text):
        raise Malformed(path, "is not an id: 1 to 128 of A-Z a-z 0-9 . _ : / @ # -")
    return make(text)


def client_id(make: Callable[[str], _Name], text: str, *, path: str) -> _Name:
    """An id that a client chose: `any_id`, and not beginning with `_`, which the ledger keeps."""
    if text.startswith("_"):
        raise Malformed(path, "begins with _, which is reserved")
    return any_id(make, text, path=path)


def origin(text: str, *, path: str = "$.origin") -> Origin:
    """A log's name: `[a-z0-9.-]+(/[a-z0-9._-]+)*`, at most 255 characters. Raises `Malformed`."""
    if len(text) > ORIGIN_LENGTH_MAX or not _ORIGIN.fullmatch(text):
        raise Malformed(path, "is not an origin: [a-z0-9.-]+(/[a-z0-9._-]+)*")
    return Origin(text)


def request_id(text: str, *, path: str = "$.request.id") -> RequestId:
    """A lower-case UUID of any version. Raises `Malformed`."""
    if not _UUID.fullmatch(text):
        raise Malformed(path, "is not a UUID in lower case")
    return RequestId(text)


def media_type(text: str, *, path: str) -> MediaType:
    """An RFC 2045 type with optional parameters, ASCII, at most 128. Raises `Malformed`."""
    if len(text) > ID_LENGTH_MAX or not _MEDIA_TYPE.fullmatch(text):
        raise Malformed(path, "is not a media type (RFC 2045)")
    return MediaType(text)


def hex_32(make: Callable[[str], _Name], text: str, *, path: str) -> _Name:
    """16 bytes as 32 lower-case hexadecimal characters. Raises `Malformed`."""
    if not _HEX_32.fullmatch(text):
        raise Malformed(path, "is not 32 lower-case hexadecimal characters")
    return make(text)


def hash_bytes(text: str, *, path: str) -> bytes:
    """The 32 bytes of a hash written as 64 lower-case hexadecimal characters, or `Malformed`."""
    if not _HEX_64.fullmatch(text):
        raise Malformed(path, "is not 64 lower-case hexadecimal characters")
    return bytes.fromhex(text)


def uuid7(*, unix_ms: int, random: bytes) -> RequestId:
    """A UUIDv7 (RFC 9562, section 5.7) of a time in milliseconds and 10 random bytes.

    74 of the 80 random bits are used. Raises ValueError outside 48 bits of time or 10 bytes.
    """
    if not 0 <= unix_ms < 1 << 48 or len(random) != 10:
        raise ValueError("a UUIDv7 needs 48 bits of time and 10 random bytes")
    bits = int.from_bytes(random, "big")
    number = unix_ms << 80 | 0x7 << 76 | (bits >> 62 & 0xFFF) << 64
    number |= 0b10 << 62 | (bits & (1 << 62) - 1)
    text = f"{number:032x}"
    return RequestId(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")


def derived_key(*, tenant: Tenant, run: RunId, step: StepId) -> Key:
    """The key of a step for which the caller gave none (rules, section 5).

    `d:` and 43 characters: the same for the same three ids for ever, and no given key equals it.
    """
    digest = hashlib.sha256(b"ledger.key.v1\x00")
    for part in (tenant, run, step):
        octets = part.encode("utf-8")
        digest.update(len(octets).to_bytes(4, "big"))
        digest.update(octets)
    return Key(_DERIVED_KEY + _base64url(digest.digest()))


def given_key(key: bytes, *, secret: bytes) -> Key:
    """How a caller's own key stands in entries (rules, section 5).

    Itself where it is an id that does not begin with `_`, `d:` or `x:`; every other one as `x:` and
    HMAC-SHA-256 under the tenant's key-index secret, so that no private text enters the record.
    Equal bytes give equal keys, other bytes other keys. Raises `Malformed` outside 1 to 255 bytes.
    """
    if not 1 <= len(key) <= KEY_LENGTH_MAX:
        raise Malformed("$.key", f"is not 1 to {KEY_LENGTH_MAX} bytes long")
    if stands_as_given(key):
        return Key(key.decode("ascii"))
    return Key(_HIDDEN_KEY + _base64url(hmac.digest(secret, key, "sha256")))


def stands_as_given(key: bytes) -> bool:
    """Whether a caller's key needs no sealing: its very characters may stand in an entry."""
    text = key.decode("latin-1")
    return bool(_ID.fullmatch(text)) and not text.startswith(("_", _DERIVED_KEY, _HIDDEN_KEY))


def _base64url(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode("ascii")
