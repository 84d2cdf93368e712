"""Where the demo keeps its things: one new folder, nothing outside it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """A demo's folder.

    `held` stands outside the server's data folder on purpose: what an auditor holds must not be in
    reach of whom he audits.
    """

    root: Path

    @classmethod
    def new(cls, below: Path, *, now: datetime) -> Place:
        """A new folder named for the time, below `below`. Raises OSError where it cannot be."""
        for number in range(1, 100):
            suffix = "" if number == 1 else f"-{number}"
            root = below / f"{now:%Y%m%d-%H%M%S}{suffix}"
            try:
                root.mkdir(mode=0o700, parents=True)
            except FileExistsError:
                continue
            (root / "held").mkdir()
            return cls(root)
        raise FileExistsError(f"{below} is full of demos of this second")

    @property
    def server(self) -> Path:
        """The server's data folder."""
        return self.root / "data"

    @property
    def tokens(self) -> Path:
        """The tokens that the server made."""
        return self.server / "tokens"

    @property
    def actions(self) -> Path:
        """The actions, as the runtime reads them."""
        return self.root / "actions.jsonl"

    @property
    def shop(self) -> Path:
        """The shop's own file."""
        return self.root / "shop.db"

    @property
    def held(self) -> Path:
        """Checkpoints that the demo took along the way, and the key it pinned first."""
        return self.root / "held"

    @property
    def log(self) -> Path:
        """The whole log as a tlog-tiles folder."""
        return self.root / "log"

    @property
    def server_log(self) -> Path:
        """What the server printed."""
        return self.root / "server.log"

    @property
    def runtime_log(self) -> Path:
        """What the runtimes printed that is no event."""
        return self.root / "runtime.log"
