"""Signed notes, verifier keys, checkpoint bodies, proofs and cosignatures of other people."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ledger.core.checkpoint import cosignature_time_s, parse_checkpoint_text
from ledger.core.errors import Malformed
from ledger.core.note import NoteInvalid, SignatureLine, open_note
from ledger.core.note_key import VerifierKey
from ledger.core.receipt import parse_receipt


@pytest.fixture(scope="module")
def notes(vectors: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(
        (vectors / "notes" / "notes.json").read_bytes()
    )
    return found


def test_each_note_is_accepted_or_refused_as_marked(notes: dict[str, list[dict[str, Any]]]) -> None:
    verdicts = {case["name"]: _opens(case) for case in notes["notes"]}
    assert verdicts == {case["name"]: case["want"] == "accept" for case in notes["notes"]}
    assert sorted(set(verdicts.values())) == [False, True]


def test_a_note_of_six_lines_has_as_many_verified_as_marked(
    notes: dict[str, list[dict[str, Any]]],
) -> None:
    (case,) = [case for case in notes["notes"] if "want_verified" in case]
    opened = open_note(case["note"].encode(), [VerifierKey.parse(key) for key in case["vkeys"]])
    assert len(opened.verified) == case["want_verified"]
    assert [line.name for line in opened.unknown] == ["random1", "random2"]


def test_each_real_checkpoint_says_the_origin_and_size_that_are_marked(
    notes: dict[str, list[dict[str, Any]]],
) -> None:
    cases = [case for case in notes["notes"] if "size" in case]
    for case in cases:
        text = open_note(
            case["note"].encode(), [VerifierKey.parse(key) for key in case["vkeys"]]
        ).text
        checkpoint = parse_checkpoint_text(text)
        assert (checkpoint.origin, checkpoint.size) == (case["origin"], case["size"])
        assert checkpoint.text() == text
    assert len(cases) == 2


def test_each_verifier_key_is_accepted_or_refused_as_marked(
    notes: dict[str, list[dict[str, Any]]],
) -> None:
    for case in notes["vkeys"]:
        if case is _ml_dsa_key(notes):
            continue
        try:
            key = VerifierKey.parse(case["vkey"])
            accepted = str(key) == case["vkey"]
        except Malformed:
            accepted = False
        assert accepted == (case["want"] == "accept"), case


def test_a_verifier_key_whose_id_is_not_its_own_is_refused(
    notes: dict[str, list[dict[str, Any]]],
) -> None:
    # Marked "accept" by a parser that does not compare the id: it is not the one that C2SP
    # signed-note prescribes for this name and key, and ML-DSA-44 is no type of ours.
    name, key_id, material = _ml_dsa_key(notes)["vkey"].split("+", 2)
    octets = name.encode() + b"\n" + base64.b64decode(material)
    assert hashlib.sha256(octets).hexdigest()[:8] != key_id
    with pytest.raises(Malformed):
        VerifierKey.parse(_ml_dsa_key(notes)["vkey"])


def test_each_checkpoint_body_is_refused_unless_its_root_is_a_sha_256(
    notes: dict[str, list[dict[str, Any]]],
) -> None:
    refused_though_accepted_upstream = 0
    for case in notes["checkpoint_bodies"]:
        with pytest.raises(Malformed):
            parse_checkpoint_text(case["body"])
        refused_though_accepted_upstream += case["upstream_want"] == "accept"
    # The five exceptions that the values' README names.
    assert refused_though_accepted_upstream == 5


def test_each_malformed_proof_text_is_refused(notes: dict[str, list[dict[str, Any]]]) -> None:
    assert len(notes["tlog_proofs"]) == 6
    for case in notes["tlog_proofs"]:
        with pytest.raises(Malformed):
            parse_receipt(case["proof"].encode())


def test_each_cosignature_line_gives_its_time_or_is_no_cosignature(
    notes: dict[str, list[dict[str, Any]]],
) -> None:
    for case in notes["cosignature_lines"]:
        octets = base64.b64decode(case["b64"])
        line = SignatureLine("witness", octets[:4], octets[4:])
        if "timestamp" in case:
            assert cosignature_time_s(line) == case["timestamp"]
        else:
            with pytest.raises(NoteInvalid):
                cosignature_time_s(line)


def _ml_dsa_key(notes: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    (case,) = [case for case in notes["vkeys"] if "MLDSA" in case.get("desc", "")]
    return case


def _opens(case: dict[str, Any]) -> bool:
    keys = [VerifierKey.parse(key) for key in case["vkeys"]]
    try:
        opened = open_note(case["note"].encode(), keys)
    except NoteInvalid:
        return False
    note: str = case["note"]
    return note.startswith(opened.text)
