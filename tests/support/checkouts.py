"""A fresh checkout: what a clone would hold, uncommitted changes included, and nothing ignored."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def fresh_checkout(into: Path) -> Path:
    """Copies every tracked and every not ignored file of this checkout to the new folder `into`."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in listed.rstrip("\0").split("\0"):
        if (ROOT / name).is_file():  # a tracked file that was just removed is still listed
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, into / name)
    return into
