"""Log keys: the files with which checkpoints are signed (formats, section 3).

A key is a file `log/<digest of the origin>/<key id>` below the keys folder, mode 0600, holding the
written form of a private key of a signed note. The file `current` beside it names the one that
signs. A key is made with its origin, before the log's first append, and never printed.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

from ledger.core.errors import Malformed
from ledger.core.ids import Origin
from ledger.core.note_key import Signer
from ledger.keyring import KeyMissing, write_secret

_KEY_ID: Final = re.compile(r"[0-9a-f]{8}")
_CURRENT: Final = "current"


def origin_digest(origin: Origin) -> str:
    """How files are named for an origin, which may hold slashes: 32 hex characters of SHA-256."""
    return hashlib.sha256(origin.encode("ascii")).hexdigest()[:32]


class LogKeys:
    """The signing keys of a keys folder. Reads files when asked; keeps no secret in between."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "log"

    def has(self, origin: Origin) -> bool:
        """Whether this process may sign for the origin."""
        return (self._below(origin) / _CURRENT).is_file()

    def new(self, origin: Origin, *, seed: bytes) -> Signer:
        """Makes the origin's key of 32 random bytes, durably, and lets it sign from now on."""
        below = self._below(origin)
        below.mkdir(mode=0o700, parents=True, exist_ok=True)
        signer = Signer.of(name=origin, seed=seed)
        write_secret(below / signer.key.key_id.hex(), signer.private_text())
        write_secret(below / _CURRENT, signer.key.key_id.hex())
        return signer

    def load(self, origin: Origin) -> Signer:
        """The key that signs. Raises `KeyMissing` where there is none, or none that is whole, its
        owner's alone and this origin's."""
        below = self._below(origin)
        current = below / _CURRENT
        if not current.is_file():
            raise KeyMissing(
                f"There is no signing key of {origin} in {below}. Nothing was signed. Put the "
                "log's own key there; a new key would not be the one that auditors have pinned."
            )
        named = current.read_text(encoding="ascii").strip()
        path = below / named
        if not _KEY_ID.fullmatch(named) or not path.is_file():
            raise KeyMissing(f"{current} names no key that is there. Nothing was signed.")
        if path.stat().st_mode & 0o077:
            raise KeyMissing(f"{path} may be read by others. Set its mode to 0600 and start again.")
        try:
            signer = Signer.parse(path.read_text(encoding="ascii").removesuffix("\n"))
        except (Malformed, UnicodeDecodeError):
            raise KeyMissing(f"{path} does not hold a signing key. Nothing was signed.") from None
        if signer.name != origin or signer.key.key_id.hex() != named:
            raise KeyMissing(f"{path} holds the key of another log. Nothing was signed.")
        return signer

    def _below(self, origin: Origin) -> Path:
        return self._folder / origin_digest(origin)
