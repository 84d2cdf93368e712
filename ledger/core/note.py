"""Signed notes (C2SP signed-note): text, a blank line, and signature lines.

<text, ending in a newline>
<blank line>
— <key name> base64(key id[4] || signature)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ledger.core.base64_text import decode_base64, encode_base64
from ledger.core.errors import Malformed
from ledger.core.note_key import KEY_ID_LENGTH, Algorithm, Signer, VerifierKey, is_key_name

NOTE_LENGTH_MAX: Final = 1_000_000
SIGNATURES_MAX: Final = 100

_DASH: Final = "\u2014 "


class NoteInvalid(ValueError):
    """A note that must not be believed; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SignatureLine:
    """One line under a note; `octets` follow the key id and belong to the key's algorithm."""

    name: str
    key_id: bytes
    octets: bytes

    def __str__(self) -> str:
        return f"{_DASH}{self.name} {encode_base64(self.key_id + self.octets)}\n"


@dataclass(frozen=True, slots=True)
class Note:
    """A note taken apart, nothing verified yet. `text` ends in a newline."""

    text: str
    signatures: tuple[SignatureLine, ...]

    def __str__(self) -> str:
        return f"{self.text}\n{''.join(map(str, self.signatures))}"


@dataclass(frozen=True, slots=True)
class OpenedNote:
    """A note with at least one good signature of a pinned key.

    `verified` pairs each pinned key that signed with its line; `unknown` lines prove nothing.
    """

    text: str
    verified: tuple[tuple[VerifierKey, SignatureLine], ...]
    unknown: tuple[SignatureLine, ...]


def sign_note(text: str, signers: Sequence[Signer]) -> bytes:
    """The note of this text with a plain Ed25519 line of each signer, in order.

    Raises `NoteInvalid` for a text that no note can carry and ValueError without a log's signer.
    """
    _require_text(text)
    if not signers or any(signer.algorithm is not Algorithm.ED25519 for signer in signers):
        raise ValueError("a note is signed by one or more Ed25519 keys")
    message = text.encode("utf-8")
    lines = tuple(
        SignatureLine(signer.name, signer.key.key_id, signer.sign(message)) for signer in signers
    )
    return str(Note(text, lines)).encode("utf-8")


def add_signatures(note: bytes, lines: Iterable[SignatureLine]) -> bytes:
    """The note with further lines at its end; what was there keeps its bytes."""
    parse_note(note)
    return note + "".join(map(str, lines)).encode("utf-8")


def parse_note(note: bytes) -> Note:
    """Take a note apart, strictly, without verifying. Raises `NoteInvalid`."""
    if len(note) > NOTE_LENGTH_MAX:
        raise NoteInvalid("the note is too long")
    try:
        whole = note.decode("utf-8")
    except UnicodeDecodeError:
        raise NoteInvalid("the note is not UTF-8") from None
    body, blank, tail = whole.rpartition("\n\n")
    if not blank or not tail.endswith("\n"):
        raise NoteInvalid("the note has no signature lines after a blank line")
    text = body + "\n"
    _require_text(text)
    rows = tail.removesuffix("\n").split("\n")
    if len(rows) > SIGNATURES_MAX:
        raise NoteInvalid(f"the note has more than {SIGNATURES_MAX} signatures")
    return Note(text, tuple(_parse_line(row) for row in rows))


def open_note(note: bytes, keys: Sequence[VerifierKey]) -> OpenedNote:
    """Verify a plain signed note with pinned Ed25519 keys. Raises `NoteInvalid`.

    Every line that names a pinned key (name and id) must verify: one bad line makes the whole note
    invalid. Lines of keys that are not pinned are ignored. No good line at all is invalid. A pinned
    key of a cosignature type has no place here; `ledger.core.checkpoint` opens those.
    """
    if any(key.algorithm is not Algorithm.ED25519 for key in keys):
        raise ValueError("a plain note is opened with Ed25519 keys")
    parsed = parse_note(note)
    message = parsed.text.encode("utf-8")
    verified, unknown = match_lines(parsed, keys)
    for key, line in verified:
        if not key.verifies(message=message, signature=line.octets):
            raise NoteInvalid(f"the signature of {key.name} does not verify")
    if not verified:
        raise NoteInvalid("the note is signed by no pinned key")
    return OpenedNote(parsed.text, verified, unknown)


def match_lines(
    note: Note, keys: Sequence[VerifierKey]
) -> tuple[tuple[tuple[VerifierKey, SignatureLine], ...], tuple[SignatureLine, ...]]:
    """Sort lines into those of a pinned key, not yet verified, and all others.

    Raises `NoteInvalid` where one pinned key has two lines, and ValueError where two pinned keys
    share name and id: neither can be told apart by a reader.
    """
    pinned = {(key.name, key.key_id): key for key in keys}
    if len(pinned) != len(keys):
        raise ValueError("two pinned keys share name and id")
    known: dict[tuple[str, bytes], tuple[VerifierKey, SignatureLine]] = {}
    unknown: list[SignatureLine] = []
    for line in note.signatures:
        place = (line.name, line.key_id)
        key = pinned.get(place)
        if key is None:
            unknown.append(line)
        elif place in known:
            raise NoteInvalid(f"the note has two signatures of {key.name}")
        else:
            known[place] = (key, line)
    return tuple(known.values()), tuple(unknown)


def _require_text(text: str) -> None:
    if not text.endswith("\n"):
        raise NoteInvalid("a note's text ends in a newline")
    if any(character < " " and character != "\n" for character in text):
        raise NoteInvalid("a note holds no control characters but newlines")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise NoteInvalid("a note's text is not UTF-8") from None


def _parse_line(row: str) -> SignatureLine:
    name, space, signature = row.removeprefix(_DASH).partition(" ")
    if not row.startswith(_DASH) or not space or not is_key_name(name):
        raise NoteInvalid("a signature line is malformed")
    try:
        octets = decode_base64(signature)
    except Malformed:
        raise NoteInvalid("a signature line is not Base64") from None
    if len(octets) <= KEY_ID_LENGTH:
        raise NoteInvalid("a signature line is cut off")
    return SignatureLine(name, octets[:KEY_ID_LENGTH], octets[KEY_ID_LENGTH:])
