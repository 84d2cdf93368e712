"""Notes, roots, proofs and tile names, made by one implementation and judged by the other."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from ledger.core.checkpoint import Checkpoint, open_checkpoint, sign_checkpoint
from ledger.core.merkle import EMPTY_FRONTIER, leaf_hash
from ledger.core.note import open_note, sign_note
from ledger.core.note_key import Signer
from ledger.core.proof_check import verify_consistency, verify_inclusion
from ledger.core.proving import Node, consistency_proof, inclusion_proof
from ledger.core.tile_files import tile_path
from tests.oracle.conftest import Ask
from tests.unit.core import entries

LOG = Signer.of(name=entries.ORIGIN, seed=bytes(range(32)))
NEXT = Signer.of(name=entries.ORIGIN, seed=bytes(range(32, 64)))
SIZE = 70
RAWS = [entries.entry(index=index) for index in range(SIZE)]
LEAVES = [leaf_hash(raw) for raw in RAWS]
GROW = {"Ask": "grow", "Entries": RAWS}


def _root(size: int) -> bytes:
    return EMPTY_FRONTIER.extend(LEAVES[:size]).root()


def _read(nodes: Sequence[Node]) -> list[bytes]:
    return [
        EMPTY_FRONTIER.extend(LEAVES[n.index << n.height : (n.index + 1) << n.height]).root()
        for n in nodes
    ]


def _hashes(answer: dict[str, Any]) -> list[bytes]:
    assert answer["Fault"] == ""
    return [base64.b64decode(text) for text in answer["Hashes"] or []]


def test_our_checkpoint_opens_there_with_our_written_key(ask: Ask) -> None:
    checkpoint = Checkpoint(entries.ORIGIN, SIZE, _root(SIZE))
    note = sign_checkpoint(checkpoint, [LOG, NEXT])
    both, one, none = ask(
        [
            {"Ask": "open", "Note": note, "Keys": [str(LOG.key), str(NEXT.key)]},
            {"Ask": "open", "Note": note, "Keys": [str(NEXT.key)]},
            {"Ask": "open", "Note": note.replace(b"\n70\n", b"\n71\n"), "Keys": [str(LOG.key)]},
        ]
    )
    assert both["Text"] == one["Text"] == checkpoint.text()
    assert (both["Names"], one["Names"]) == ([LOG.name, NEXT.name], [NEXT.name])
    assert "invalid signature" in none["Fault"]


def test_a_note_signed_there_with_our_written_private_key_opens_here(ask: Ask) -> None:
    text = Checkpoint(entries.ORIGIN, 7, _root(7)).text()
    (answer,) = ask([{"Ask": "sign", "Text": text, "Private": LOG.private_text()}])
    note = base64.b64decode(answer["Note"])
    assert note == sign_note(text, [LOG])
    assert open_note(note, [LOG.key]).text == text
    assert open_checkpoint(note, log_keys=[LOG.key]).checkpoint.size == 7


def test_the_root_of_every_size_is_the_same_there(ask: Ask) -> None:
    sizes = range(1, SIZE + 1)
    answers = ask([GROW, *({"Ask": "root", "Size": size} for size in sizes)])
    assert [_hashes(answer)[0] for answer in answers[1:]] == [_root(size) for size in sizes]


def test_every_inclusion_proof_is_the_same_there_and_judged_alike(ask: Ask) -> None:
    places = [(index, size) for size in range(1, SIZE + 1) for index in range(size)]
    ours = [inclusion_proof(index, size, _read) for index, size in places]
    made = ask(
        [GROW, *({"Ask": "prove inclusion", "Index": i, "Size": size} for i, size in places)]
    )
    assert [_hashes(answer) for answer in made[1:]] == ours
    for (index, size), proof in zip(places, ours, strict=True):
        verify_inclusion(leaf=LEAVES[index], index=index, size=size, proof=proof, root=_root(size))
    judged = ask(
        [
            {
                "Ask": "check inclusion",
                "Leaf": LEAVES[index],
                "Index": index,
                "Size": size,
                "Root": root,
                "Proof": proof,
            }
            for (index, size), proof in zip(places, ours, strict=True)
            for root in (_root(size), bytes(32))
        ]
    )
    assert [answer["Fault"] == "" for answer in judged] == [True, False] * len(places)


def test_every_consistency_proof_is_the_same_there_and_judged_alike(ask: Ask) -> None:
    pairs = [(old, new) for new in range(1, SIZE + 1) for old in range(1, new + 1)]
    ours = [consistency_proof(old, new, _read) for old, new in pairs]
    made = ask(
        [GROW, *({"Ask": "prove consistency", "OldSize": old, "Size": n} for old, n in pairs)]
    )
    assert [_hashes(answer) for answer in made[1:]] == ours
    for (old, new), proof in zip(pairs, ours, strict=True):
        verify_consistency(
            old_size=old, new_size=new, old_root=_root(old), new_root=_root(new), proof=proof
        )
    judged = ask(
        [
            {
                "Ask": "check consistency",
                "OldSize": old,
                "OldRoot": root,
                "Size": new,
                "Root": _root(new),
                "Proof": proof,
            }
            for (old, new), proof in zip(pairs, ours, strict=True)
            for root in (_root(old), bytes(32))
        ]
    )
    assert [answer["Fault"] == "" for answer in judged] == [True, False] * len(pairs)


def test_tiles_are_named_as_there(ask: Ask) -> None:
    tiles = [(0, 0, 256), (0, 1_234_067, 256), (1, 999, 1), (2, 1000, 255), (7, 5, 17)]
    answers = ask(
        [
            {"Ask": "tile path", "Index": level, "Size": index, "OldSize": width}
            for level, index, width in tiles
        ]
    )
    # The checksum database puts the tile height into the path; tlog-tiles fixes it to 8.
    named = [answer["Text"].replace("tile/8/", "tile/", 1) for answer in answers]
    ours = [tile_path(level=level, index=index, width=width) for level, index, width in tiles]
    assert ours == named
