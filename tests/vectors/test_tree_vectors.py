"""RFC 6962 reference tree and hostile proofs (transparency-dev/merkle)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ledger.core.merkle import EMPTY_FRONTIER, EMPTY_ROOT, leaf_hash
from ledger.core.proof_check import ProofInvalid, verify_consistency, verify_inclusion
from ledger.core.proving import Node, consistency_proof, inclusion_proof


def test_the_reference_tree_has_the_reference_roots(vectors: Path) -> None:
    tree = json.loads((vectors / "rfc6962" / "ct-reference-tree.json").read_bytes())
    leaves = [leaf_hash(bytes.fromhex(leaf)) for leaf in tree["leaf_inputs_hex"]]
    assert [leaf.hex() for leaf in leaves] == tree["node_hashes_by_level"][0]
    roots = [EMPTY_FRONTIER.extend(leaves[:size]).root().hex() for size in range(len(leaves) + 1)]
    assert roots == tree["root_hashes_hex_by_size"]
    assert roots[0] == EMPTY_ROOT.hex()


def test_each_inclusion_case_is_accepted_or_refused_as_marked(vectors: Path) -> None:
    wrong: list[str] = []
    accepted = refused = 0
    for name, case in _cases(vectors / "rfc6962" / "inclusion"):
        try:
            verify_inclusion(
                leaf=_decode(case["leafHash"]),
                index=case["leafIdx"],
                size=case["treeSize"],
                proof=_decode_all(case["proof"]),
                root=_decode(case["root"]),
            )
            accepted += 1
            failed = False
        except ProofInvalid:
            refused += 1
            failed = True
        if failed != case["wantErr"]:
            wrong.append(name)
    assert wrong == []
    assert accepted > 3
    assert refused > 50


def test_each_consistency_case_is_accepted_or_refused_as_marked(vectors: Path) -> None:
    wrong: list[str] = []
    accepted = refused = 0
    for name, case in _cases(vectors / "rfc6962" / "consistency"):
        try:
            verify_consistency(
                old_size=case["size1"],
                new_size=case["size2"],
                old_root=_decode(case["root1"]),
                new_root=_decode(case["root2"]),
                proof=_decode_all(case["proof"]),
            )
            accepted += 1
            failed = False
        except ProofInvalid:
            refused += 1
            failed = True
        if failed != case["wantErr"]:
            wrong.append(name)
    assert wrong == []
    assert accepted > 3
    assert refused > 50


def test_our_proofs_over_the_reference_tree_are_the_reference_proofs(vectors: Path) -> None:
    tree = json.loads((vectors / "rfc6962" / "ct-reference-tree.json").read_bytes())
    levels = [[bytes.fromhex(node) for node in row] for row in tree["node_hashes_by_level"]]

    def read(nodes: Any) -> list[bytes]:
        return [levels[node.height][node.index] for node in nodes if isinstance(node, Node)]

    compared = 0
    for name, case in _cases(vectors / "rfc6962"):
        if case["wantErr"]:
            continue
        if "leafIdx" in case:
            ours = inclusion_proof(case["leafIdx"], case["treeSize"], read)
        else:
            ours = consistency_proof(case["size1"], case["size2"], read)
        assert ours == _decode_all(case["proof"]), name
        compared += 1
    assert compared >= 10


def _cases(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(folder.rglob("*.json")):
        case = json.loads(path.read_bytes())
        if "wantErr" in case:
            yield str(path.relative_to(folder)), case


def _decode(text: str | None) -> bytes:
    return base64.b64decode(text or "")


def _decode_all(proof: list[str] | None) -> list[bytes]:
    return [_decode(text) for text in proof or []]
