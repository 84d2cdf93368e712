"""RFC 8785 documents and numbers of the algorithm's author (cyberphone/json-canonicalization)."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from ledger.core.arguments import encode_arguments
from ledger.core.errors import Malformed

DOCUMENTS = 6
NUMBERS = 10_000


def test_each_document_is_written_as_its_author_says(vectors: Path) -> None:
    inputs = sorted((vectors / "jcs" / "input").glob("*.json"))
    written = {path.name: encode_arguments(json.loads(path.read_bytes())) for path in inputs}
    wanted = {p.name: p.read_bytes() for p in (vectors / "jcs" / "output").glob("*.json")}
    assert len(written) == DOCUMENTS
    assert written == wanted


def test_each_document_agrees_with_its_hexadecimal_twin(vectors: Path) -> None:
    for path in sorted((vectors / "jcs" / "outhex").glob("*.txt")):
        document = (vectors / "jcs" / "input" / path.name).with_suffix(".json")
        wanted = bytes.fromhex(path.read_text())
        assert encode_arguments(json.loads(document.read_bytes())) == wanted, path.name


def test_each_of_ten_thousand_numbers_is_written_as_ecmascript_does(vectors: Path) -> None:
    wrong: list[tuple[str, str, bytes]] = []
    lines = (vectors / "jcs" / "es6numbers-10000.txt").read_text().split()
    for line in lines:
        bits, _, wanted = line.partition(",")
        number = struct.unpack(">d", bytes.fromhex(bits.zfill(16)))[0]
        written = encode_arguments(number)
        if written != wanted.encode():
            wrong.append((bits, wanted, written))
    assert len(lines) == NUMBERS
    assert wrong == []


def test_an_integer_beyond_two_to_the_53_is_refused_where_it_stands(vectors: Path) -> None:
    document = json.loads((vectors / "jcs" / "input" / "arrays.json").read_bytes())
    document.append({"deep": [2**53]})
    try:
        encode_arguments(document)
    except Malformed as fault:
        assert fault.path == f"$[{len(document) - 1}].deep[0]"
    else:
        raise AssertionError("2**53 was written")
