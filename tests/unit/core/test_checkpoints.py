"""Checkpoints and cosignatures."""

from __future__ import annotations

import pytest

from ledger.core.checkpoint import (
    Checkpoint,
    cosign,
    open_checkpoint,
    parse_checkpoint_text,
    sign_checkpoint,
)
from ledger.core.errors import Malformed
from ledger.core.merkle import EMPTY_ROOT
from ledger.core.note import NoteInvalid, SignatureLine, add_signatures, sign_note
from ledger.core.note_key import Algorithm, Signer

ORIGIN = "ledger.example/log-1"
LOG = Signer.of(name=ORIGIN, seed=bytes(range(32)))
NEXT = Signer.of(name=ORIGIN, seed=bytes(range(64, 96)))
WITNESS = Signer.of(
    name="witness.example", seed=bytes(range(32, 64)), algorithm=Algorithm.COSIGNATURE_V1
)
CHECKPOINT = Checkpoint(ORIGIN, 1234, bytes(range(32)))
TIME_S = 1_679_315_147


def test_a_checkpoint_is_three_lines() -> None:
    root = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    assert CHECKPOINT.text() == f"{ORIGIN}\n1234\n{root}\n"
    assert parse_checkpoint_text(CHECKPOINT.text()) == CHECKPOINT
    empty = Checkpoint(ORIGIN, 0, EMPTY_ROOT)
    assert parse_checkpoint_text(empty.text()) == empty


RIGHT = CHECKPOINT.text()


@pytest.mark.parametrize(
    "text",
    [
        "",
        RIGHT[:-1],
        RIGHT + "\n",
        RIGHT + "extension\n",
        RIGHT.replace(ORIGIN, ""),
        RIGHT.replace("1234", "01234"),
        RIGHT.replace("1234", "+1234"),
        RIGHT.replace("1234", "-1"),
        RIGHT.replace("1234", "1,234"),
        RIGHT.replace("1234", "1_234"),
        RIGHT.replace("1234", " 1234"),
        RIGHT.replace("1234", "0x4d2"),
        RIGHT.replace("1234", "00"),
        RIGHT.replace("1234", ""),
        RIGHT.replace("1234", "\u0661"),
        RIGHT.replace("1234", str(2**53)),
        RIGHT.replace("=", ""),
        RIGHT.replace("h8=", "h9="),
        RIGHT.replace("AAEC", ""),
        RIGHT.replace("\n", "\r\n"),
    ],
)
def test_any_other_text_is_no_checkpoint(text: str) -> None:
    with pytest.raises(Malformed):
        parse_checkpoint_text(text)


def test_a_signed_checkpoint_opens_with_its_logs_key() -> None:
    note = sign_checkpoint(CHECKPOINT, [LOG])
    opened = open_checkpoint(note, log_keys=[LOG.key])
    assert opened.checkpoint == CHECKPOINT
    assert opened.log_keys == (LOG.key,)
    assert (opened.cosignatures, opened.unknown) == ((), ())


def test_during_a_rotation_either_key_opens_the_checkpoint() -> None:
    note = sign_checkpoint(CHECKPOINT, [LOG, NEXT])
    assert open_checkpoint(note, log_keys=[LOG.key]).log_keys == (LOG.key,)
    assert open_checkpoint(note, log_keys=[NEXT.key]).log_keys == (NEXT.key,)
    assert open_checkpoint(note, log_keys=[NEXT.key, LOG.key]).log_keys == (LOG.key, NEXT.key)


def test_a_log_signs_under_its_origins_name_only() -> None:
    other = Signer.of(name="ledger.example/log-2", seed=LOG.seed)
    with pytest.raises(ValueError, match="origin"):
        sign_checkpoint(CHECKPOINT, [other])
    note = sign_note(CHECKPOINT.text(), [other])
    with pytest.raises(NoteInvalid, match="origin"):
        open_checkpoint(note, log_keys=[other.key])


def test_what_is_no_checkpoint_is_not_signed() -> None:
    for wrong in (Checkpoint(ORIGIN, -1, bytes(32)), Checkpoint(ORIGIN, 1, bytes(31))):
        with pytest.raises(ValueError, match="is not"):
            sign_checkpoint(wrong, [LOG])


def test_a_signed_note_that_is_no_checkpoint_does_not_open() -> None:
    note = sign_note(f"{ORIGIN}\n7\nnothing\n", [LOG])
    with pytest.raises(NoteInvalid, match="not a checkpoint"):
        open_checkpoint(note, log_keys=[LOG.key])


def test_a_cosignature_is_the_message_that_the_specification_prescribes() -> None:
    note = cosign(sign_checkpoint(CHECKPOINT, [LOG]), WITNESS, timestamp_s=TIME_S)
    message = f"cosignature/v1\ntime {TIME_S}\n{CHECKPOINT.text()}".encode()
    octets = TIME_S.to_bytes(8, "big") + WITNESS.sign(message)
    line = SignatureLine(WITNESS.name, WITNESS.key.key_id, octets)
    assert note.decode().endswith(str(line))
    opened = open_checkpoint(note, log_keys=[LOG.key], cosigners=[WITNESS.key])
    assert [(cosigned.key, cosigned.timestamp_s) for cosigned in opened.cosignatures] == [
        (WITNESS.key, TIME_S)
    ]


def test_cosignatures_do_not_stand_in_for_the_logs_own_signature() -> None:
    stranger = Signer.of(name="stranger.example", seed=bytes(32))
    note = cosign(sign_note(CHECKPOINT.text(), [stranger]), WITNESS, timestamp_s=TIME_S)
    with pytest.raises(NoteInvalid, match="no pinned key of its log"):
        open_checkpoint(note, log_keys=[LOG.key], cosigners=[WITNESS.key])


@pytest.mark.parametrize("place", [0, 7, 8, 71])
def test_a_changed_cosignature_of_a_pinned_witness_makes_the_note_invalid(place: int) -> None:
    right = sign_checkpoint(CHECKPOINT, [LOG])
    message = f"cosignature/v1\ntime {TIME_S}\n{CHECKPOINT.text()}".encode()
    octets = bytearray(TIME_S.to_bytes(8, "big") + WITNESS.sign(message))
    octets[place] ^= 0x80
    line = SignatureLine(WITNESS.name, WITNESS.key.key_id, bytes(octets))
    note = add_signatures(right, [line])
    assert open_checkpoint(note, log_keys=[LOG.key]).unknown == (line,)
    with pytest.raises(NoteInvalid):
        open_checkpoint(note, log_keys=[LOG.key], cosigners=[WITNESS.key])


def test_a_plain_signature_is_no_cosignature() -> None:
    line = SignatureLine(WITNESS.name, WITNESS.key.key_id, WITNESS.sign(CHECKPOINT.text().encode()))
    note = add_signatures(sign_checkpoint(CHECKPOINT, [LOG]), [line])
    with pytest.raises(NoteInvalid, match="cosignature/v1"):
        open_checkpoint(note, log_keys=[LOG.key], cosigners=[WITNESS.key])


def test_keys_are_pinned_for_what_they_are() -> None:
    note = sign_checkpoint(CHECKPOINT, [LOG])
    with pytest.raises(ValueError, match="type"):
        open_checkpoint(note, log_keys=[WITNESS.key])
    with pytest.raises(ValueError, match="type"):
        open_checkpoint(note, log_keys=[LOG.key], cosigners=[LOG.key])
    with pytest.raises(ValueError, match="share"):
        open_checkpoint(note, log_keys=[LOG.key, LOG.key])
    with pytest.raises(ValueError, match="type"):
        cosign(note, LOG, timestamp_s=TIME_S)
    with pytest.raises(ValueError, match="2\\^63"):
        cosign(note, WITNESS, timestamp_s=2**63)
