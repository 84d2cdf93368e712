"""The tree as files (C2SP tlog-tiles): the names of tiles and the form of entry bundles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ledger.core.errors import Malformed
from ledger.core.tiles import TILE_WIDTH

ENTRY_LENGTH_LIMIT: Final = 0xFFFF
"""What the two length bytes of a bundle can count; our entries stay below half of it."""

_LEVEL_MAX: Final = 63
_PATH: Final = re.compile(
    r"tile/(?P<level>entries|0|[1-9][0-9]?)/(?P<index>(?:x[0-9]{3}/)*[0-9]{3})"
    r"(?:\.p/(?P<width>[1-9][0-9]{0,2}))?"
)


@dataclass(frozen=True, slots=True)
class TilePath:
    """What a file name says: `level` is None for an entry bundle; `width` is 1 to 256."""

    level: int | None
    index: int
    width: int


def tile_path(*, level: int, index: int, width: int = TILE_WIDTH) -> str:
    """`tile/<level>/<index>`, with `.p/<width>` where the tile is partial."""
    if not 0 <= level <= _LEVEL_MAX:
        raise ValueError("a tile's level is 0 to 63")
    return f"tile/{level}/{_index_and_width(index, width)}"


def entries_path(*, index: int, width: int = TILE_WIDTH) -> str:
    """`tile/entries/<index>`, with `.p/<width>` where the bundle is partial."""
    return f"tile/entries/{_index_and_width(index, width)}"


def parse_path(path: str) -> TilePath:
    """Read back what `tile_path` or `entries_path` made; any other spelling raises `Malformed`."""
    match = _PATH.fullmatch(path)
    if not match:
        raise Malformed("$", "is not the path of a tile")
    level = None if match["level"] == "entries" else int(match["level"])
    index = int(match["index"].replace("x", "").replace("/", ""))
    width = int(match["width"]) if match["width"] else TILE_WIDTH
    is_partial = match["width"] is not None
    in_range = (level is None or level <= _LEVEL_MAX) and (width < TILE_WIDTH or not is_partial)
    if not in_range or _index_and_width(index, width) != path.split("/", 2)[2]:
        raise Malformed("$", "is not the one path of its tile")
    return TilePath(level, index, width)


def encode_bundle(entries: Iterable[bytes]) -> bytes:
    """Entries one after the other, each after its length as two bytes, big-endian.

    Raises ValueError for an entry beyond 65,535 bytes.
    """
    parts: list[bytes] = []
    for entry in entries:
        if len(entry) > ENTRY_LENGTH_LIMIT:
            raise ValueError("an entry is longer than a bundle can say")
        parts += (len(entry).to_bytes(2, "big"), entry)
    return b"".join(parts)


def decode_bundle(octets: bytes, *, width: int) -> Sequence[bytes]:
    """The `width` entries of a bundle. Raises `Malformed` if it is cut, or holds more or fewer."""
    entries: list[bytes] = []
    position = 0
    while position < len(octets):
        begin = position + 2
        end = begin + int.from_bytes(octets[position:begin], "big")
        if begin > len(octets) or end > len(octets):
            raise Malformed(f"$[{len(entries)}]", "is cut off")
        entries.append(octets[begin:end])
        position = end
    if len(entries) != width:
        raise Malformed("$", f"holds {len(entries)} entries, not {width}")
    return entries


def _index_and_width(index: int, width: int) -> str:
    if index < 0 or not 1 <= width <= TILE_WIDTH:
        raise ValueError("a tile's index is not negative and its width is 1 to 256")
    groups = [f"{index % 1000:03d}"]
    while index := index // 1000:
        groups.append(f"x{index % 1000:03d}")
    name = "/".join(reversed(groups))
    return name if width == TILE_WIDTH else f"{name}.p/{width}"
