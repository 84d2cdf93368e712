"""Finding what stands twice in a log of any length, with 22 bytes of memory for each entry."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

_BUCKETS: Final = 256
_DIGEST: Final = 16
_INDEX: Final = 6
_RECORD: Final = _DIGEST + _INDEX


class Repeats:
    """Remembers 128-bit digests by bucket and compares each bucket at the end.

    Two different texts of one digest would take 2**64 tries to make; a log's writer gains nothing
    by it but a finding against himself.
    """

    def __init__(self) -> None:
        self._buckets = [bytearray() for _ in range(_BUCKETS)]

    def add(self, text: bytes, index: int) -> None:
        """Remembers that `text` stands at `index` (below 2**48)."""
        digest = blake2b(text, digest_size=_DIGEST).digest()
        self._buckets[digest[0]] += digest + index.to_bytes(_INDEX, "big")

    def found(self) -> Iterator[tuple[int, int]]:
        """(index, index of the first) of each text that stands again, in no order."""
        for bucket in self._buckets:
            whole = bytes(bucket)
            first: dict[bytes, bytes] = {}
            for at in range(0, len(whole), _RECORD):
                digest = whole[at : at + _DIGEST]
                index = whole[at + _DIGEST : at + _RECORD]
                earlier = first.setdefault(digest, index)
                if earlier is not index:
                    yield int.from_bytes(index, "big"), int.from_bytes(earlier, "big")
