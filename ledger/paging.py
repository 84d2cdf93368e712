"""Page tokens: where the next page begins, opaque to whoever holds one.

A token is no credential: it holds a place and nothing that its holder was not shown.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from ledger.core.canonical import INT_MAX
from ledger.core.errors import Malformed

_TOKEN_LENGTH_MAX = 1_024


@dataclass(frozen=True, slots=True)
class Page:
    """What part of a list is asked for: at most `size` items after the place `after`."""

    size: int
    after: tuple[int | str, ...] | None = None


def write_token(place: Sequence[int | str]) -> str:
    """The token of a place in a list's order."""
    return base64.urlsafe_b64encode(orjson.dumps(list(place))).rstrip(b"=").decode("ascii")


def read_token(token: str, kinds: Sequence[type]) -> tuple[int | str, ...] | None:
    """The place of a token that `write_token` made for an order of these kinds; None if empty.

    Raises `Malformed` at `page_token` for anything else.
    """
    if not token:
        return None
    try:
        if len(token) > _TOKEN_LENGTH_MAX:
            raise ValueError
        octets = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        place = orjson.loads(octets)
    except (ValueError, binascii.Error):
        raise _not_ours() from None
    if type(place) is not list or [type(part) for part in place] != list(kinds):
        raise _not_ours()
    if any(isinstance(part, int) and not 0 <= part <= INT_MAX for part in place):
        raise _not_ours()
    return tuple(place)


def _not_ours() -> Malformed:
    return Malformed("page_token", "is not one that this list gave out")
