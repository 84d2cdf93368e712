"""Signing a log's head so that it never forks (formats, section 3).

Append and commit come first; then, under the lock of the log's high-water mark, the signer reads
the committed size and root, shows that they continue what the mark says, advances the mark, signs
and publishes. Whatever died in between, the next signing starts from the mark and the committed log
and comes to the same note: signatures are deterministic and a size is published once.

Everything here blocks; call it from a thread. Any number of threads and of processes on one host
may call at once. Where several hosts may sign for one log they need one folder of marks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from threading import Event
from time import monotonic
from typing import Final

from ledger.core.checkpoint import Checkpoint, open_checkpoint, sign_checkpoint
from ledger.core.log import Log
from ledger.core.note import NoteInvalid
from ledger.core.note_key import Signer
from ledger.core.times import format_time
from ledger.keyring import KeyMissing
from ledger.log_keys import LogKeys
from ledger.log_reading import NotSigning
from ledger.marks import HeldMark, MarkBroken, Marks
from ledger.signing_check import HeadRefused, checked_head, root_at
from ledger.store.interface import Changing, Reading, Store
from ledger.store.rows import number, text
from ledger.store.tables import CHECKPOINTS
from ledger.views import PublishedCheckpoint

SEED_LENGTH: Final = 32
ELSEWHERE_WAIT_MS: Final = 3_000
_LOOK_AGAIN_S: Final = 0.05
_PIN: Final = "`ledger checkpoint pin`"


class HistoryRewound(NotSigning):
    """The log is not the one whose head was signed: it lost entries, or other ones stand there.

    Nothing is signed and nothing may be appended until an operator decides.
    """


class HistoryChanged(NotSigning):
    """Entries or tiles were changed after they were chained, and before their head was signed.

    `index` is that of the first entry that is not what was chained, None where it is the tree's
    tiles or head row that differ.
    """

    def __init__(self, message: str, index: int | None) -> None:
        super().__init__(message)
        self.index = index


class PinRefused(ValueError):
    """A checkpoint that cannot become the mark. Says why; the mark is as it was."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """What `pin` did: `before` is None where no whole mark was there."""

    before: Checkpoint | None
    now: Checkpoint


class Checkpoints:
    """Signs and publishes the heads of a store's logs."""

    def __init__(
        self,
        store: Store,
        *,
        keys: LogKeys,
        marks: Marks,
        elsewhere_wait_ms: int = ELSEWHERE_WAIT_MS,
    ) -> None:
        """`elsewhere_wait_ms`: how long a process without the key waits for another's signature."""
        self._wait_s = elsewhere_wait_ms / 1_000
        self._store = store
        self._keys = keys
        self._marks = marks

    def begin(self, log: Log) -> None:
        """Makes key and mark of a log that is still empty; checks them for one that is not.

        To be called when the log is made, before its first append, and at each start before
        appends are served. Returns quietly where this process has no key for a log that others
        already sign. Raises `HistoryRewound` where the mark is gone or ahead of the log, and
        `MarkBroken`.
        """
        with self._marks.held(log.origin) as held:
            mark = held.read()
            with self._store.read() as reading:
                size = reading.head(log.number).size
                published = _newest(reading, log)
            if mark is None and size == 0 and published is None:
                if self._keys.has(log.origin):
                    raise _mark_gone(log, size)
                mark = held.make()
            if mark is not None and mark.size == 0 and size == 0 and published is None:
                self._make_key(log)
        if self._keys.has(log.origin):
            self.checkpoint(log)

    def _make_key(self, log: Log) -> None:
        if not self._keys.has(log.origin):
            self._keys.new(log.origin, seed=os.urandom(SEED_LENGTH))

    def checkpoint(self, log: Log) -> PublishedCheckpoint:
        """A signed and published checkpoint that holds everything committed before the call.

        Without the log's key this process waits for another's, [3 s]. Raises `HistoryRewound`,
        `HistoryChanged`, `MarkBroken` or another `NotSigning`, and what the store raises. After
        any of them the call may simply be made again: no step of it can be doubled.
        """
        if not self._keys.has(log.origin):
            return self._signed_elsewhere(log)
        signer = self._signer(log)
        with self._marks.held(log.origin) as held:
            mark = held.read()
            with self._store.read() as reading:
                if mark is None:
                    raise _mark_gone(log, reading.head(log.number).size)
                now = _checked(reading, log, mark)
                newest = _newest(reading, log)
            _require_continued(log, signer, newest, now)
            if now != mark:
                held.advance(expected=mark, to=now)
            note = sign_checkpoint(now, [signer])
            if newest is None or newest.note != note:
                self._publish(log, note, now.size)
            return PublishedCheckpoint(note, now.size, str(signer.key))

    def sign_if_moved(self, log: Log) -> None:
        """Signs the head if this process has the key and the newest published size is another.

        Raises what `checkpoint` does.
        """
        if not self._keys.has(log.origin):
            return
        with self._store.read() as reading:
            newest = _newest(reading, log)
            if newest is not None and newest.size == reading.head(log.number).size:
                return
        self.checkpoint(log)

    def verifier_key(self, log: Log) -> str:
        """The written form of the key that signs, for auditors to pin. Raises `NotSigning`."""
        return str(self._signer(log).key)

    def _signer(self, log: Log) -> Signer:
        try:
            return self._keys.load(log.origin)
        except KeyMissing as fault:
            raise NotSigning(str(fault)) from None

    def _publish(self, log: Log, note: bytes, size: int) -> None:
        with self._store.change() as changing:
            row = (log.number, size, note.decode("utf-8"), changing.clock_us())
            # Not an insert: after an unclear commit the equal row may be there already.
            changing.upsert(CHECKPOINTS, [row])

    def _signed_elsewhere(self, log: Log) -> PublishedCheckpoint:
        with self._store.read() as reading:
            needed = reading.head(log.number).size
        until_s = monotonic() + self._wait_s
        pause = Event()
        while True:
            with self._store.read() as reading:
                newest = _newest(reading, log)
            if newest is not None and newest.size >= needed:
                return newest
            if monotonic() > until_s:
                raise NotSigning(
                    f"This server has no signing key of {log.origin}, and no other one signed its "
                    f"{needed:,} entries in {self._wait_s:g} s. They are recorded. "
                    "Ask again, or look whether the signing server runs."
                )
            pause.wait(_LOOK_AGAIN_S)

    def published(self, log: Log, *, limit: int) -> list[PublishedCheckpoint]:
        """The newest published checkpoints, largest first. Not verified."""
        with self._store.read() as reading:
            rows = reading.page(
                CHECKPOINTS,
                equal={"log": log.number},
                order=("size",),
                descending=True,
                limit=limit,
            )
        return [PublishedCheckpoint(text(row[2]).encode(), number(row[1]), "") for row in rows]

    def pin(self, log: Log, note: bytes, *, by: str) -> Pinned:
        """Makes a checkpoint that an operator trusts the log's mark, whatever the mark was.

        The note must be signed by the log's own key and its root must be that of the log's first
        `size` entries, recomputed from their bytes. Who accepted it is kept beside the mark.
        Published checkpoints beyond it are removed: they are of a history that was given up. Raises
        `PinRefused`, `NotSigning` and what the store raises.
        """
        signer = self._signer(log)
        accepted = _accepted(note, signer)
        with self._marks.held(log.origin) as held:
            before = _whole_mark(held)
            with self._store.read() as reading:
                size = reading.head(log.number).size
                if accepted.size > size:
                    raise PinRefused(
                        f"That checkpoint is of size {accepted.size:,} and the log holds only "
                        f"{size:,} entries. Pin one that the log still holds, or restore the log."
                    )
                _require_holds(reading, log, accepted)
            with self._store.change() as changing:
                at = format_time(changing.clock_us())
                _remove_published_above(changing, log, accepted.size)
            was = "no whole mark" if before is None else f"{before.size} {before.root.hex()}"
            record = f"{at} {by} pinned {accepted.size} {accepted.root.hex()} in place of {was}"
            held.replace(accepted, record=record)
        return Pinned(before, accepted)


def _checked(reading: Reading, log: Log, mark: Checkpoint) -> Checkpoint:
    """The committed head, shown to continue the mark."""
    size = reading.head(log.number).size
    if size < mark.size:
        raise HistoryRewound(
            f"The log {log.origin} holds {size:,} entries, but {mark.size:,} were signed: "
            "an older copy of the database stands in its place, or entries were removed. Nothing "
            "was signed or changed. Bring the lost entries back, or accept a checkpoint that the "
            f"log still holds with {_PIN}: whoever holds a newer one will find the loss."
        )
    try:
        return checked_head(reading, log, mark)
    except HeadRefused as refused:
        if refused.before_mark:
            raise HistoryRewound(
                f"The first {mark.size:,} entries of {log.origin} are not those that were signed "
                f"({refused}). Nothing was signed or changed. Bring the right database back, or "
                f"accept a checkpoint that the log still holds with {_PIN}."
            ) from None
        raise HistoryChanged(
            f"Entries of {log.origin} above {mark.size:,} are not what was chained ({refused}). "
            "Nothing was signed. What was signed before stays provable; restore those entries from "
            "a replica or backup, and find out what wrote to the database.",
            refused.index,
        ) from None


def _mark_gone(log: Log, size: int) -> HistoryRewound:
    return HistoryRewound(
        f"The log {log.origin} has {size:,} entries and a signing key, but no high-water mark. "
        "Nothing was signed: without it an older copy of the log would look whole. Entries are as "
        f"they were. Put the mark's file back, or accept a checkpoint that you trust with {_PIN}."
    )


def _newest(reading: Reading, log: Log) -> PublishedCheckpoint | None:
    rows = reading.page(
        CHECKPOINTS, equal={"log": log.number}, order=("size",), descending=True, limit=1
    )
    if not rows:
        return None
    return PublishedCheckpoint(text(rows[0][2]).encode("utf-8"), number(rows[0][1]), "")


def _require_continued(
    log: Log, signer: Signer, newest: PublishedCheckpoint | None, now: Checkpoint
) -> None:
    """What was published last is of this key, and not of a longer log."""
    if newest is None:
        return
    try:
        published = open_checkpoint(newest.note, log_keys=[signer.key]).checkpoint
    except NoteInvalid as fault:
        raise NotSigning(
            f"The newest published checkpoint of {log.origin} is not of the key that is here "
            f"({fault}). Nothing was signed. Every server of a log signs with the same key: put "
            "the log's own key into the keys folder."
        ) from None
    if published.size > now.size:
        raise HistoryRewound(
            f"The log {log.origin} holds {now.size:,} entries, but a checkpoint of "
            f"{published.size:,} was published. Nothing was signed or changed. Bring the lost "
            f"entries back, or accept a checkpoint that the log still holds with {_PIN}."
        )


def _accepted(note: bytes, signer: Signer) -> Checkpoint:
    try:
        return open_checkpoint(note, log_keys=[signer.key]).checkpoint
    except NoteInvalid as fault:
        raise PinRefused(f"That is no checkpoint of this log's key: {fault}.") from None


def _require_holds(reading: Reading, log: Log, accepted: Checkpoint) -> None:
    try:
        root = root_at(reading, log, size=accepted.size)
    except HeadRefused as refused:
        raise PinRefused(f"The log cannot be read up to that checkpoint: {refused}.") from None
    if root != accepted.root:
        raise PinRefused(
            f"The log's first {accepted.size:,} entries are not those of that checkpoint."
        )


def _whole_mark(held: HeldMark) -> Checkpoint | None:
    try:
        return held.read()
    except MarkBroken:
        return None


def _remove_published_above(changing: Changing, log: Log, size: int) -> None:
    while True:
        rows = changing.page(
            CHECKPOINTS, equal={"log": log.number}, order=("size",), after=(size,), limit=1_000
        )
        if not rows:
            return
        changing.delete(CHECKPOINTS, [(row[0], row[1]) for row in rows])
        size = number(rows[-1][1])
