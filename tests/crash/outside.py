"""The world outside of the ledger, in files of its own: what tools did, and what was acknowledged.

Each line is one `write` to a file opened for appending, then synced: a process that is killed
leaves it whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any


class Lines:
    """A file of JSON lines that many processes append to."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, **members: str | int) -> None:
        """Appends a line; it is durable afterwards."""
        number = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            octets = json.dumps(members).encode() + b"\n"
            assert os.write(number, octets) == len(octets)
            os.fsync(number)
        finally:
            os.close(number)

    def read(self) -> list[dict[str, Any]]:
        """All lines so far."""
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines()]


class World:
    """A shop that recognises nothing: whatever is asked of it, it does, and counts."""

    def __init__(self, folder: Path) -> None:
        self._effects = Lines(folder / "effects")

    def act(self, *, run: str, action: str, key: str) -> None:
        """The effect. `action` is what is done, whatever the step or key that asks for it."""
        self._effects.add(run=run, action=action, key=key)

    def has_done(self, key: str) -> bool:
        """What a confirmer asks the system of record."""
        return key in self.by_key()

    def by_key(self) -> Counter[str]:
        """How often each key's effect happened."""
        return Counter(effect["key"] for effect in self._effects.read())

    def keys_of(self, run: str) -> dict[str, list[str]]:
        """The keys under which each action of a run was done, one for each time."""
        found: dict[str, list[str]] = {}
        for effect in self._effects.read():
            if effect["run"] == run:
                found.setdefault(effect["action"], []).append(effect["key"])
        return found


class Notes:
    """What processes were acknowledged, noted before they went on."""

    def __init__(self, folder: Path) -> None:
        self._lines = Lines(folder / "acknowledged")

    def note(self, *, index: int, leaf: bytes) -> None:
        """One acknowledged append."""
        self._lines.add(index=index, leaf=leaf.hex())

    def leaves(self) -> dict[int, bytes]:
        """Leaf hashes by index. Fails where one index was acknowledged with two leaves."""
        found: dict[int, bytes] = {}
        for line in self._lines.read():
            leaf = bytes.fromhex(line["leaf"])
            assert found.setdefault(line["index"], leaf) == leaf
        return found
