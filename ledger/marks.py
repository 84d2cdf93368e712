"""High-water marks: how far a log had grown when its head was last signed (formats, section 3).

One file for each origin, outside the database and its backups:

    ledger-mark/1
    <origin>
    <size>
    <base64 root>
    sha256 <hex of everything above>

It is replaced whole and durably; what does not read back to the byte is an error, never a mark of
size 0. Processes of one host take turns by a lock beside it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ledger.core.checkpoint import Checkpoint, parse_checkpoint_text
from ledger.core.errors import Malformed
from ledger.core.ids import Origin
from ledger.core.merkle import EMPTY_ROOT
from ledger.keyring import sync_folder, write_secret
from ledger.log_keys import origin_digest
from ledger.log_reading import NotSigning

_HEADER: Final = "ledger-mark/1\n"
_LENGTH_MAX: Final = 1_024


class MarkBroken(NotSigning):
    """A mark's file that is torn, changed or another log's. Says which file and what to do."""


class MarkNotWritten(NotSigning):
    """The disk did not take the mark, which is as it was. It may the next time."""


class Marks:
    """The marks of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, origin: Origin) -> Path:
        """Where the origin's mark stands."""
        return self._folder / origin_digest(origin)

    @contextlib.contextmanager
    def held(self, origin: Origin) -> Iterator[HeldMark]:
        """The origin's mark under its lock: no other process or thread of this host has it.

        Waits for the lock; a process that dies gives it back.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.path(origin)
        lock = path.with_name(path.name + ".lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield HeldMark(path, origin)
        finally:
            os.close(descriptor)


class HeldMark:
    """A mark while its lock is held."""

    def __init__(self, path: Path, origin: Origin) -> None:
        self._path = path
        self._origin = origin

    def read(self) -> Checkpoint | None:
        """The mark, None where there is no file. Raises `MarkBroken` for all but a whole one."""
        try:
            octets = self._path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            mark = parse_mark(octets)
        except Malformed as fault:
            raise MarkBroken(
                f"The high-water mark {self._path} is not whole ({fault}). Nothing was signed. "
                "Entries are as they were; put the file back, or accept a checkpoint that you "
                "trust with `ledger checkpoint pin`."
            ) from None
        if mark.origin != self._origin:
            raise MarkBroken(
                f"The high-water mark {self._path} is of {mark.origin}, not of {self._origin}. "
                "Nothing was signed. Put the right file back."
            )
        return mark

    def make(self) -> Checkpoint:
        """The mark of an empty log. The caller knows that there was none."""
        mark = Checkpoint(self._origin, 0, EMPTY_ROOT)
        self._write(mark)
        return mark

    def advance(self, *, expected: Checkpoint, to: Checkpoint) -> None:
        """Moves the mark on, durably when this returns. Raises `MarkBroken` where the file is not
        what the caller compared with: somebody wrote it without the lock; and `MarkNotWritten`."""
        if self.read() != expected:
            raise MarkBroken(
                f"The high-water mark {self._path} changed while it was locked. Nothing was "
                "signed. Something else writes this file; stop it."
            )
        try:
            self._write(to)
        except OSError as fault:
            raise MarkNotWritten(
                f"The high-water mark {self._path} could not be written ({fault.strerror}). "
                "Nothing was signed, and entries are as they were. Make room on its disk; signing "
                "is tried again by itself."
            ) from fault

    def replace(self, mark: Checkpoint, *, record: str) -> None:
        """Sets the mark to what an operator accepted, whatever stood there.

        `record` is one line on who accepted what; it is kept in a file beside the mark, and written
        first.
        """
        pins = self._path.with_name(self._path.name + ".pins")
        with pins.open("a", encoding="utf-8") as kept:
            kept.write(record.replace("\n", " ") + "\n")
            kept.flush()
            os.fsync(kept.fileno())
        self._write(mark)

    def _write(self, mark: Checkpoint) -> None:
        write_secret(self._path, format_mark(mark).removesuffix("\n"))
        sync_folder(self._path.parent.parent)


def format_mark(mark: Checkpoint) -> str:
    """The text of a mark's file."""
    above = _HEADER + mark.text()
    return f"{above}sha256 {hashlib.sha256(above.encode()).hexdigest()}\n"


def parse_mark(octets: bytes) -> Checkpoint:
    """Read a mark's file. Raises `Malformed` for every other spelling of it."""
    if len(octets) > _LENGTH_MAX:
        raise Malformed("$", "is too long for a mark")
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed("$", "is not UTF-8") from None
    if not text.startswith(_HEADER):
        raise Malformed("$", "does not begin as a mark does")
    mark = parse_checkpoint_text(text.removeprefix(_HEADER).rpartition("sha256 ")[0])
    if format_mark(mark) != text:
        raise Malformed("$", "is cut off or changed: its digest is another")
    return mark
