"""Ledger time: integer microseconds since 1970-01-01T00:00:00Z, and its one written form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from ledger.core.errors import Malformed

TIME_LENGTH: Final = 27
TIME_US_MAX: Final = 253_402_300_799_999_999
"""9999-12-31T23:59:59.999999Z, the last time that the form can write."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def format_time(time_us: int) -> str:
    """`YYYY-MM-DDTHH:MM:SS.ffffffZ`, UTC, always 27 characters, of 0..`TIME_US_MAX`.

    Text order is time order. Raises ValueError outside the range.
    """
    if not 0 <= time_us <= TIME_US_MAX:
        raise ValueError("time is outside the years 1970 to 9999")
    seconds, fraction_us = divmod(time_us, 1_000_000)
    return f"{_format_second(seconds)}.{fraction_us:06d}Z"


def parse_time(text: str, *, path: str = "$") -> int:
    """Microseconds since the epoch of a time written as `format_time` writes it, and no other way.

    Raises `Malformed`; a leap second (`:60`) has no microsecond count and is refused.
    """
    if len(text) == TIME_LENGTH and text.isascii() and text[20:26].isdigit():
        seconds = _parse_second(text[:19])
        if seconds >= 0 and text[19] == "." and text[26] == "Z":
            return seconds * 1_000_000 + int(text[20:26])
    raise Malformed(path, "is not a time of the form YYYY-MM-DDTHH:MM:SS.ffffffZ")


# Neighbouring entries share their second: the costly calendar step is remembered, its answer never
# changes.
@lru_cache(maxsize=64)
def _format_second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


@lru_cache(maxsize=64)
def _parse_second(text: str) -> int:
    """Seconds since the epoch, or -1 where the text is not exactly as `_format_second` writes."""
    try:
        moment = datetime.strptime(text + "+0000", "%Y-%m-%dT%H:%M:%S%z")
    except ValueError:
        return -1
    elapsed = moment - _EPOCH
    seconds = elapsed.days * 86_400 + elapsed.seconds
    return seconds if seconds >= 0 and _format_second(seconds) == text else -1
