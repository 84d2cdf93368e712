"""Key-encryption keys: files that wrap data keys (rules, section 9).

A key is a file `kek/<32 hex characters>` of 64 hex characters, mode 0600, in the keys folder. The
file `kek/current` names the one that wraps new data keys. Every replica has the same files. A key
is never printed, never in an argument list, and never leaves this module but to wrap and unwrap.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Final

from ledger.core.ids import DataKeyId, Tenant
from ledger.core.sealing import (
    KEK_ID_LENGTH,
    KEY_LENGTH,
    NONCE_LENGTH,
    kek_id_of,
    unwrap_data_key,
    wrap_data_key,
)

_ID: Final = re.compile(r"[0-9a-f]{32}")
_CURRENT: Final = "current"


class KeyMissing(RuntimeError):
    """A key that the store needs is not in the keys folder, or may be read by others."""


class Keyring:
    """The key-encryption keys of a folder, read once."""

    def __init__(self, keys: dict[bytes, bytes], current: bytes) -> None:
        self._keys = keys
        self._current = current

    def __repr__(self) -> str:
        return f"Keyring({len(self._keys)} keys, current {self._current.hex()})"

    @classmethod
    def load(cls, folder: Path) -> Keyring:
        """Reads the keys below `folder`/kek. Raises `KeyMissing` where there is none, where
        `current` names none, or where a file's mode lets others read it."""
        below = folder / "kek"
        keys: dict[bytes, bytes] = {}
        for path in sorted(below.glob("*")) if below.is_dir() else []:
            if _ID.fullmatch(path.name):
                keys[bytes.fromhex(path.name)] = _read_secret(path)
        current = below / _CURRENT
        if not keys or not current.is_file():
            raise KeyMissing(
                f"There is no key-encryption key in {below}. Nothing was written. Make one with "
                "`ledger keys new`, or put the store's own keys there."
            )
        named = current.read_text(encoding="ascii").strip()
        if not _ID.fullmatch(named) or bytes.fromhex(named) not in keys:
            raise KeyMissing(f"{current} names no key that is there. Nothing was written.")
        return cls(keys, bytes.fromhex(named))

    @staticmethod
    def new(folder: Path) -> str:
        """Makes a key, durably, and lets it wrap what is made from now on. Answers its id."""
        below = folder / "kek"
        below.mkdir(mode=0o700, parents=True, exist_ok=True)
        key_id = secrets.token_hex(KEK_ID_LENGTH)
        write_secret(below / key_id, secrets.token_hex(KEY_LENGTH))
        write_secret(below / _CURRENT, key_id)
        return key_id

    def has(self, kek_id: bytes) -> bool:
        """Whether the key of that id is here."""
        return kek_id in self._keys

    def wrap(self, data_key: bytes, *, tenant: Tenant, data_key_id: DataKeyId) -> bytes:
        """The data key, wrapped by the current key."""
        return wrap_data_key(
            data_key,
            kek_id=self._current,
            kek=self._keys[self._current],
            nonce=os.urandom(NONCE_LENGTH),
            tenant=tenant,
            data_key_id=data_key_id,
        )

    def unwrap(self, wrapped: bytes, *, tenant: Tenant, data_key_id: DataKeyId) -> bytes:
        """The data key. Raises `KeyMissing` naming the key that wrapped it, or `SealBroken`."""
        kek_id = kek_id_of(wrapped)
        kek = self._keys.get(kek_id)
        if kek is None:
            raise KeyMissing(
                f"The key-encryption key {kek_id.hex()} is missing. What it sealed cannot be read. "
                "Put its file into the keys folder."
            )
        return unwrap_data_key(wrapped, kek=kek, tenant=tenant, data_key_id=data_key_id)


def write_secret(path: Path, text: str) -> None:
    """Writes a file that only its owner may read, whole or not at all, and durably."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        _write_durably(beside, text.encode("utf-8") + b"\n")
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _write_durably(path: Path, octets: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        # A disk that fills up may take a part and call it a success; the next write then fails.
        while octets:
            octets = octets[os.write(descriptor, octets) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Makes the folder's names durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_secret(path: Path) -> bytes:
    if path.stat().st_mode & 0o077:
        raise KeyMissing(f"{path} may be read by others. Set its mode to 0600 and start again.")
    key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    if len(key) != KEY_LENGTH:
        raise KeyMissing(f"{path} does not hold a key of {KEY_LENGTH} bytes.")
    return key
