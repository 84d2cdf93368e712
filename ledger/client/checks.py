"""Written rules and limits, checked before anything is sent. What the transport refuses names no
field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ledger.client.errors import InvalidRequest, Violation
from ledger.client.payloads import Payload
from ledger.core import ids
from ledger.core.errors import Malformed

AFTER_MAX: Final = 64
EVIDENCE_MAX: Final = 32
LABELS_MAX: Final = 16
LEASE_S_MIN: Final = 5.0
LEASE_S_MAX: Final = 3_600.0
OPERATION_S_MIN: Final = 1.0
OPERATION_S_MAX: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The server's written limits; change them only together with the server's settings."""

    payload_bytes_max: int = 1 << 20
    message_bytes_max: int = 8 << 20
    commands_max: int = 1_000
    steps_max: int = 1_000
    nesting_max: int = 16
    page_max: int = 1_000


DEFAULT_LIMITS: Final = Limits()
"""The limits of a server whose settings were left alone."""


@dataclass(frozen=True, slots=True)
class Checks:
    """Collects faults field by field; `finish` raises them together."""

    limits: Limits
    faults: list[Violation] = field(default_factory=list)

    def fault(self, path: str, what: str) -> None:
        """Note one fault."""
        self.faults.append(Violation(path, what))

    def client_id(self, text: str, *, path: str, optional: bool = False) -> str:
        """An id that a client chose: not beginning with `_`."""
        return self._malformed(lambda: ids.client_id(str, text, path=path), text, optional)

    def any_id(self, text: str, *, path: str, optional: bool = False) -> str:
        """An id as entries hold it."""
        return self._malformed(lambda: ids.any_id(str, text, path=path), text, optional)

    def key(self, key: str | bytes | None, *, path: str) -> bytes:
        """An idempotency key as bytes; empty where none is given, so that the ledger derives
        one.
        """
        if key is None:
            return b""
        octets = _utf8(key)
        if octets is None:
            self.fault(path, "holds a lone surrogate")
            return b""
        if not 1 <= len(octets) <= ids.KEY_LENGTH_MAX:
            self.fault(path, f"is not 1 to {ids.KEY_LENGTH_MAX} bytes long")
        return octets

    def payload(self, payload: Payload, *, path: str) -> Payload:
        """A payload within its size, with a media type and an optional subject."""
        size = len(payload.content)
        if size > self.limits.payload_bytes_max:
            self.fault(
                f"{path}.content",
                f"is {size:,} bytes long; at most {self.limits.payload_bytes_max:,} are kept. "
                "Send a digest and a pointer instead",
            )
        if payload.media_type:
            try:
                ids.media_type(payload.media_type, path=f"{path}.media_type")
            except Malformed as fault:
                self.fault(fault.path, fault.reason)
        self.client_id(payload.subject, path=f"{path}.subject", optional=True)
        return payload

    def count(self, items: Sequence[object], *, path: str, least: int, most: int) -> None:
        """Between `least` and `most` items."""
        if not least <= len(items) <= most:
            self.fault(path, f"has {len(items):,} items; {least:,} to {most:,} are allowed")

    def seconds(self, seconds: float, *, path: str, least: float, most: float) -> None:
        """A duration between `least` and `most` seconds."""
        if not least <= seconds <= most:  # NaN is in no range
            self.fault(path, f"is {seconds} s; {least:g} s to {most:g} s are allowed")

    def finish(self) -> None:
        """Raise `InvalidRequest` with everything noted, or return."""
        if self.faults:
            raise InvalidRequest(*self.faults)

    def _malformed(self, check: Callable[[], str], text: str, optional: bool) -> str:
        if optional and not text:
            return text
        try:
            return check()
        except Malformed as fault:
            self.fault(fault.path, fault.reason)
            return text


def check_message_size(size: int, *, largest: str, limits: Limits) -> None:
    """Raise `InvalidRequest` naming `largest` if a message of `size` bytes is beyond the server's
    limit.
    """
    if size > limits.message_bytes_max:
        raise InvalidRequest(
            Violation(
                largest,
                f"makes the message {size:,} bytes long; at most {limits.message_bytes_max:,} are "
                "taken. Send it in parts",
            )
        )


def _utf8(key: str | bytes) -> bytes | None:
    if isinstance(key, bytes):
        return key
    try:
        return key.encode("utf-8")
    except UnicodeEncodeError:
        return None
