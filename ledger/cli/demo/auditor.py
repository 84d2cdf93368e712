"""The demo's auditor: holds checkpoints outside the server's folder, and verifies with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ledger.cli.demo.account import Proof
from ledger.cli.mirror import Mirror, MirrorUnreadable, write_mirror
from ledger.client import Ledger
from ledger.verify import FolderSource, Judgement, read_policy, verify_log

KEY_FILE: Final = "verifier.key"
SUFFIX: Final = ".checkpoint"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What the verification said, and the ledger time of every entry, in microseconds."""

    proof: Proof
    times_us: list[int]


class Auditor:
    """Trusts the key that it pinned when it first came, and the checkpoints it took since."""

    def __init__(self, *, held: Path, log: Path) -> None:
        self._held = held
        self._log = log
        self._sizes: set[int] = set()

    @property
    def key_file(self) -> Path:
        """The pinned key, as a file."""
        return self._held / KEY_FILE

    @property
    def held(self) -> list[Path]:
        """The checkpoints held, smallest first."""
        return [self._path(size) for size in sorted(self._sizes)]

    def hold(self, client: Ledger) -> int | None:
        """Take a checkpoint and keep it; answers its size, None where it is held already."""
        taken = client.checkpoint()
        if not self.key_file.exists():
            self.key_file.write_text(taken.verifier_key + "\n", "utf-8")
        if taken.size in self._sizes:
            return None
        self._path(taken.size).write_text(taken.note, "utf-8")
        self._sizes.add(taken.size)
        return taken.size

    def conclude(self, client: Ledger) -> Conclusion:
        """Copy the log and verify the copy offline, against the pinned key and all that is held."""
        try:
            write_mirror(client.entries(), self._log, client.checkpoint().note)
        except MirrorUnreadable as fault:
            said = f"FAILED: {fault}"
            return Conclusion(Proof(Judgement.FAILED.value, said, 0, len(self._sizes)), [])
        report = verify_log(
            FolderSource(self._log),
            policy=read_policy(self.key_file.read_text("utf-8")),
            held=[path.read_bytes() for path in self.held],
        )
        proof = Proof(
            verdict=report.verdict.value,
            said=report.line(),
            size=report.size,
            held=len(self._sizes),
            findings=tuple(str(finding) for finding in report.findings),
        )
        failed = report.verdict is Judgement.FAILED
        times_us = [] if failed else [each.recorded_at_us for each in Mirror(self._log).entries()]
        return Conclusion(proof, times_us)

    def _path(self, size: int) -> Path:
        return self._held / f"{size:08d}{SUFFIX}"
