"""Signed notes and their keys: what opens, and every way in which one must not."""

from __future__ import annotations

import pytest

from ledger.core.errors import Malformed
from ledger.core.note import (
    SIGNATURES_MAX,
    NoteInvalid,
    SignatureLine,
    add_signatures,
    open_note,
    parse_note,
    sign_note,
)
from ledger.core.note_key import Algorithm, Signer, VerifierKey

TEXT = "First line.\n\nLast line, \u00e9.\n"
ALICE = Signer.of(name="alice.example/key", seed=bytes(range(32)))
BOB = Signer.of(name="bob.example/key", seed=bytes(range(32, 64)))
NOTE = sign_note(TEXT, [ALICE])
LINE = NOTE.decode().rpartition("\n\n")[2]


def test_a_signed_note_opens_with_its_key() -> None:
    opened = open_note(NOTE, [ALICE.key])
    assert opened.text == TEXT
    assert [key for key, _ in opened.verified] == [ALICE.key]
    assert opened.unknown == ()


def test_a_note_of_two_signers_opens_with_either_key_or_both() -> None:
    note = sign_note(TEXT, [ALICE, BOB])
    assert [key for key, _ in open_note(note, [ALICE.key, BOB.key]).verified] == [
        ALICE.key,
        BOB.key,
    ]
    opened = open_note(note, [BOB.key])
    assert [key for key, _ in opened.verified] == [BOB.key]
    assert [line.name for line in opened.unknown] == [ALICE.name]


def test_a_note_without_a_pinned_key_does_not_open() -> None:
    with pytest.raises(NoteInvalid, match="no pinned key"):
        open_note(NOTE, [BOB.key])
    with pytest.raises(NoteInvalid, match="no pinned key"):
        open_note(NOTE, [])


def test_a_key_of_the_same_name_and_another_id_is_unknown() -> None:
    impostor = Signer.of(name=ALICE.name, seed=BOB.seed)
    with pytest.raises(NoteInvalid, match="no pinned key"):
        open_note(sign_note(TEXT, [impostor]), [ALICE.key])


def test_one_bad_line_of_a_pinned_key_makes_the_whole_note_invalid() -> None:
    forged = SignatureLine(ALICE.name, ALICE.key.key_id, bytes(64))
    note = add_signatures(sign_note(TEXT, [BOB]), [forged])
    assert open_note(note, [BOB.key]).text == TEXT
    with pytest.raises(NoteInvalid, match=r"alice.*does not verify"):
        open_note(note, [BOB.key, ALICE.key])


def test_two_lines_of_one_pinned_key_make_the_note_invalid() -> None:
    note = NOTE + LINE.encode()
    with pytest.raises(NoteInvalid, match="two signatures"):
        open_note(note, [ALICE.key])


def test_only_a_signature_of_the_right_length_verifies() -> None:
    for octets in (b"\x00", bytes(63), bytes(65)):
        line = SignatureLine(ALICE.name, ALICE.key.key_id, octets)
        note = f"{TEXT}\n{line}".encode()
        with pytest.raises(NoteInvalid, match="does not verify"):
            open_note(note, [ALICE.key])


def test_no_flipped_bit_of_a_note_opens() -> None:
    for position in range(len(NOTE)):
        for bit in range(8):
            raw = bytearray(NOTE)
            raw[position] ^= 1 << bit
            with pytest.raises(NoteInvalid):
                open_note(bytes(raw), [ALICE.key])


MALFORMED = {
    "empty": "",
    "text only": TEXT,
    "no blank line": TEXT.rstrip("\n") + "\n" + LINE,
    "no signature": TEXT + "\n",
    "no newline at the end": TEXT + "\n" + LINE.rstrip("\n"),
    "text without newline": "\n" + LINE,
    "carriage returns": TEXT.replace("\n", "\r\n") + "\n" + LINE,
    "control character": "a\x00b\n\n" + LINE,
    "tab": "a\tb\n\n" + LINE,
    "hyphen for the dash": TEXT + "\n" + LINE.replace("\u2014", "-"),
    "dash without space": TEXT + "\n" + LINE.replace("\u2014 ", "\u2014"),
    "no name": TEXT + "\n" + LINE.replace(ALICE.name, ""),
    "plus in the name": TEXT + "\n" + LINE.replace("alice", "a+b"),
    "wide space in the name": TEXT + "\n" + LINE.replace("alice", "a\u3000b"),
    "no-break space in the name": TEXT + "\n" + LINE.replace("alice", "a\u00a0b"),
    "two spaces": TEXT + "\n" + LINE.replace(f"{ALICE.name} ", f"{ALICE.name}  "),
    "space at the end of the line": TEXT + "\n" + LINE.replace("\n", " \n"),
    "no padding": TEXT + "\n" + LINE.replace("=", ""),
    "not Base64": TEXT + "\n" + LINE.replace(f"{ALICE.name} ", f"{ALICE.name} !"),
    "url-safe Base64": TEXT + "\n" + f"\u2014 {ALICE.name} -_-_-_-_\n",
    "key id only": TEXT + "\n" + f"\u2014 {ALICE.name} AAAAAA==\n",
    "other text among the signatures": TEXT + "\n" + LINE + "more text\n" + LINE,
}


@pytest.mark.parametrize("note", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_note_is_refused_though_its_signature_is_good(note: str) -> None:
    with pytest.raises(NoteInvalid):
        open_note(note.encode(), [ALICE.key])


def test_a_note_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(NoteInvalid, match="UTF-8"):
        parse_note(b"\xff" + NOTE)


def test_set_bits_behind_the_last_base64_byte_are_refused() -> None:
    # 68 bytes end in "=": the last letter before it has two bits that carry nothing.
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = alphabet.index(LINE[-3])
    second_spelling = LINE[:-3] + alphabet[last ^ 1] + LINE[-2:]
    with pytest.raises(NoteInvalid, match="Base64"):
        open_note(f"{TEXT}\n{second_spelling}".encode(), [ALICE.key])


def test_a_hundred_signatures_are_read_and_no_more() -> None:
    lines = [
        SignatureLine(f"w{number}.example", b"\x00\x00\x00\x00", bytes(64))
        for number in range(SIGNATURES_MAX)
    ]
    note = add_signatures(NOTE, lines[:-1])
    assert len(open_note(note, [ALICE.key]).unknown) == SIGNATURES_MAX - 1
    with pytest.raises(NoteInvalid, match="more than"):
        open_note(add_signatures(note, lines[-1:]), [ALICE.key])


@pytest.mark.parametrize("text", ["", "no newline", "a\tb\n", "a\rb\n", "\ud800\n"])
def test_a_text_that_no_note_can_carry_is_not_signed(text: str) -> None:
    with pytest.raises(NoteInvalid):
        sign_note(text, [ALICE])


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_keys_are_written_and_read_back(algorithm: Algorithm) -> None:
    signer = Signer.of(name="log.example/a", seed=ALICE.seed, algorithm=algorithm)
    assert VerifierKey.parse(str(signer.key)) == signer.key
    assert Signer.parse(signer.private_text()) == signer
    assert signer.private_text().startswith("PRIVATE+KEY+log.example/a+")
    assert signer.key.verifies(message=b"m", signature=signer.sign(b"m"))


def test_a_private_key_of_the_go_package_is_read() -> None:
    # The example of golang.org/x/mod/sumdb/note, whose public key and note are in its package
    # documentation too.
    text = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
    signer = Signer.parse(text)
    assert str(signer.key) == ("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
    assert signer.private_text() == text


def test_a_signer_never_shows_its_seed() -> None:
    shown = repr(ALICE) + str(ALICE)
    assert ALICE.seed.hex() not in shown
    assert repr(ALICE.seed) not in shown
    with pytest.raises(Malformed) as refused:
        Signer.parse(ALICE.private_text()[:-5])
    assert ALICE.private_text()[-40:-6] not in str(refused.value)


RIGHT_KEY = str(ALICE.key)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "alice",
        RIGHT_KEY.replace("alice", "bob"),
        RIGHT_KEY.replace("alice", "a b"),
        RIGHT_KEY.removeprefix(ALICE.name),
        RIGHT_KEY.replace(ALICE.key.key_id.hex(), "00000000"),
        RIGHT_KEY.replace(ALICE.key.key_id.hex(), ALICE.key.key_id.hex().upper() + "g"),
        RIGHT_KEY + "A",
        RIGHT_KEY + "\n",
        RIGHT_KEY[:-4],
        RIGHT_KEY + "=",
        "x+00000000+",
        "x+00000000+AQ==",
    ],
)
def test_a_malformed_verifier_key_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        VerifierKey.parse(text)


def test_a_cosigner_key_is_another_key_of_the_same_point() -> None:
    cosigner = ALICE.key.as_cosigner()
    assert cosigner.algorithm is Algorithm.COSIGNATURE_V1
    assert cosigner.public_key == ALICE.key.public_key
    assert cosigner.key_id != ALICE.key.key_id
    with pytest.raises(ValueError, match="Ed25519"):
        open_note(NOTE, [cosigner])
