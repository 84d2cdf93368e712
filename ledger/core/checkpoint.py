"""Checkpoints (C2SP tlog-checkpoint) and cosignatures on them (C2SP tlog-cosignature).

    <origin>\\n<size>\\n<base64 root>\\n

as a signed note; the log's key bears the origin as its name, and extension lines are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ledger.core import ed25519
from ledger.core.base64_text import decode_base64, encode_base64
from ledger.core.errors import Malformed
from ledger.core.merkle import HASH_LENGTH, SIZE_MAX
from ledger.core.note import (
    NoteInvalid,
    SignatureLine,
    add_signatures,
    match_lines,
    parse_note,
    sign_note,
)
from ledger.core.note_key import (
    TIMESTAMP_LENGTH,
    TIMESTAMP_S_MAX,
    Algorithm,
    Signer,
    VerifierKey,
)

_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,15}")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a log says of itself: the root of its tree at a size."""

    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        """The three lines that are signed, each ending in a newline."""
        return f"{self.origin}\n{self.size}\n{encode_base64(self.root)}\n"


@dataclass(frozen=True, slots=True)
class Cosignature:
    """A witness's verified statement, made at `timestamp_s` (seconds since the epoch)."""

    key: VerifierKey
    timestamp_s: int


@dataclass(frozen=True, slots=True)
class OpenedCheckpoint:
    """A checkpoint signed by at least one pinned key of its log.

    `log_keys` are all pinned keys that signed; `unknown` lines are of keys that are not pinned.
    """

    checkpoint: Checkpoint
    log_keys: tuple[VerifierKey, ...]
    cosignatures: tuple[Cosignature, ...]
    unknown: tuple[SignatureLine, ...]


def parse_checkpoint_text(text: str) -> Checkpoint:
    """Read the three lines of a checkpoint, strictly. Raises `Malformed`.

    The size is plain decimal up to 2**53-1, the root is 32 bytes. The origin may be any line that
    is not empty: whether it is the right one is for the pinned key's name to say.
    """
    lines = text.split("\n")
    if len(lines) != 4 or lines[3]:
        raise Malformed("$", "is not three lines, each ending in a newline")
    origin, size, root_text, _ = lines
    if not origin:
        raise Malformed("$.origin", "is empty")
    if not _SIZE.fullmatch(size) or int(size) > SIZE_MAX:
        raise Malformed("$.size", "is not a plain decimal number up to 2^53-1")
    root = decode_base64(root_text, path="$.root")
    if len(root) != HASH_LENGTH:
        raise Malformed("$.root", "is not 32 bytes long")
    return Checkpoint(origin, int(size), root)


def sign_checkpoint(checkpoint: Checkpoint, signers: Sequence[Signer]) -> bytes:
    """The signed note of a checkpoint, one line for each signer; all bear the origin as name.

    Signs what it is given: that the tree only grew is for the caller to have shown before. Raises
    ValueError for a signer of another name, and for a size or root that no checkpoint can carry.
    """
    if any(signer.name != checkpoint.origin for signer in signers):
        raise ValueError("a log signs under its origin's name only")
    text = checkpoint.text()
    parse_checkpoint_text(text)
    return sign_note(text, signers)


def open_checkpoint(
    note: bytes,
    *,
    log_keys: Sequence[VerifierKey],
    cosigners: Sequence[VerifierKey] = (),
) -> OpenedCheckpoint:
    """Verify a checkpoint against pinned keys. Raises `NoteInvalid`.

    At least one pinned Ed25519 key named like the origin must have signed. A line of any pinned
    key, log or cosigner, that does not verify makes the whole note invalid; lines of other keys are
    ignored. How many cosignatures are enough, and how old they may be, is the caller's policy.
    """
    if any(key.algorithm is not Algorithm.ED25519 for key in log_keys):
        raise ValueError("a log's pinned key is of type Ed25519")
    if any(key.algorithm is not Algorithm.COSIGNATURE_V1 for key in cosigners):
        raise ValueError("a cosigner's pinned key is of type cosignature/v1")
    parsed = parse_note(note)
    try:
        checkpoint = parse_checkpoint_text(parsed.text)
    except Malformed as fault:
        raise NoteInvalid(f"the note is not a checkpoint: {fault}") from None
    known, unknown = match_lines(parsed, [*log_keys, *cosigners])
    signed: list[VerifierKey] = []
    cosignatures: list[Cosignature] = []
    for key, line in known:
        if key.algorithm is Algorithm.ED25519:
            _require_log_line(checkpoint, key, line)
            signed.append(key)
        else:
            cosignatures.append(_open_cosignature(checkpoint, key, line))
    if not signed:
        raise NoteInvalid("the checkpoint is signed by no pinned key of its log")
    return OpenedCheckpoint(checkpoint, tuple(signed), tuple(cosignatures), unknown)


def cosign(note: bytes, cosigner: Signer, *, timestamp_s: int) -> bytes:
    """The checkpoint's note with a `cosignature/v1` line added, made at `timestamp_s`.

    Raises ValueError for a key of another type or a time outside 0..2**63-1, and `NoteInvalid` or
    `Malformed` for what is not a checkpoint. Checks no signature and no consistency: a witness does
    that first.
    """
    if cosigner.algorithm is not Algorithm.COSIGNATURE_V1:
        raise ValueError("a cosignature is made with a key of its own type")
    if not 0 <= timestamp_s <= TIMESTAMP_S_MAX:
        raise ValueError("a cosignature's time is 0 to 2^63-1 seconds")
    checkpoint = parse_checkpoint_text(parse_note(note).text)
    signature = cosigner.sign(_cosigned_v1(checkpoint, timestamp_s))
    octets = timestamp_s.to_bytes(TIMESTAMP_LENGTH, "big") + signature
    return add_signatures(note, [SignatureLine(cosigner.name, cosigner.key.key_id, octets)])


def cosignature_time_s(line: SignatureLine) -> int:
    """The time in a `cosignature/v1` line, not verified. Raises `NoteInvalid` for another shape."""
    if len(line.octets) != TIMESTAMP_LENGTH + ed25519.SIGNATURE_LENGTH:
        raise NoteInvalid("a signature line is not a cosignature/v1")
    timestamp_s = int.from_bytes(line.octets[:TIMESTAMP_LENGTH], "big")
    if timestamp_s > TIMESTAMP_S_MAX:
        raise NoteInvalid("a cosignature's time is beyond 2^63-1")
    return timestamp_s


def _require_log_line(checkpoint: Checkpoint, key: VerifierKey, line: SignatureLine) -> None:
    if key.name != checkpoint.origin:
        raise NoteInvalid("the checkpoint's origin is not the name of the key that signed it")
    message = checkpoint.text().encode("utf-8")
    if not key.verifies(message=message, signature=line.octets):
        raise NoteInvalid(f"the signature of {key.name} does not verify")


def _open_cosignature(checkpoint: Checkpoint, key: VerifierKey, line: SignatureLine) -> Cosignature:
    timestamp_s = cosignature_time_s(line)
    message = _cosigned_v1(checkpoint, timestamp_s)
    if not key.verifies(message=message, signature=line.octets[TIMESTAMP_LENGTH:]):
        raise NoteInvalid(f"the cosignature of {key.name} does not verify")
    return Cosignature(key, timestamp_s)


def _cosigned_v1(checkpoint: Checkpoint, timestamp_s: int) -> bytes:
    return f"cosignature/v1\ntime {timestamp_s}\n{checkpoint.text()}".encode()
