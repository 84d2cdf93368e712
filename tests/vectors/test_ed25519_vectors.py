"""Wycheproof's Ed25519 cases."""

from __future__ import annotations

import json
from pathlib import Path

from ledger.core import ed25519

CASES = 151


def test_each_signature_is_accepted_or_refused_as_marked(vectors: Path) -> None:
    groups = json.loads((vectors / "ed25519" / "ed25519_test.json").read_bytes())["testGroups"]
    wrong: list[tuple[int, str]] = []
    seen = 0
    for group in groups:
        key = ed25519.load_public_key(bytes.fromhex(group["publicKey"]["pk"]))
        for case in group["tests"]:
            seen += 1
            message, signature = bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"])
            accepted = ed25519.verifies(key, message=message, signature=signature)
            if accepted != (case["result"] == "valid"):
                wrong.append((case["tcId"], case["comment"]))
    assert seen == CASES
    assert wrong == []
