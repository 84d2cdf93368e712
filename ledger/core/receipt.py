"""Receipts: an entry with the proof that it is in the log (C2SP tlog-proof).

    c2sp.org/tlog-proof@v1
    extra <base64 of the entry>
    index <index>
    <base64 of each inclusion hash, one a line, leaf side first>

    <the checkpoint's signed note>

The entry in `extra` is believed only because its hash leads to the signed root.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ledger.core.base64_text import decode_base64, encode_base64
from ledger.core.checkpoint import OpenedCheckpoint, open_checkpoint
from ledger.core.entry import ENTRY_LENGTH_MAX, CheckBody, Entry, read_entry
from ledger.core.errors import Malformed
from ledger.core.ids import Origin
from ledger.core.merkle import HASH_LENGTH, SIZE_MAX, leaf_hash
from ledger.core.note import NOTE_LENGTH_MAX
from ledger.core.note_key import VerifierKey
from ledger.core.proof_check import verify_inclusion

HEADER: Final = "c2sp.org/tlog-proof@v1"
FILE_SUFFIX: Final = ".tlog-proof"
PROOF_HASHES_MAX: Final = 63
RECEIPT_LENGTH_MAX: Final = NOTE_LENGTH_MAX + 2 * ENTRY_LENGTH_MAX

_INDEX: Final = re.compile(r"index (0|[1-9][0-9]{0,15})")
_EXTRA: Final = "extra "


@dataclass(frozen=True, slots=True)
class Receipt:
    """A receipt taken apart, nothing verified yet. `checkpoint` is the signed note's own bytes."""

    entry: bytes
    index: int
    proof: tuple[bytes, ...]
    checkpoint: bytes


@dataclass(frozen=True, slots=True)
class VerifiedReceipt:
    """An entry that is proven to stand in its log under a signed checkpoint."""

    entry: Entry
    checkpoint: OpenedCheckpoint


def format_receipt(receipt: Receipt) -> bytes:
    """The text of a receipt, UTF-8."""
    lines = [HEADER, _EXTRA + encode_base64(receipt.entry), f"index {receipt.index}"]
    lines += map(encode_base64, receipt.proof)
    return ("\n".join(lines) + "\n\n").encode("ascii") + receipt.checkpoint


def parse_receipt(octets: bytes) -> Receipt:
    """Take a receipt apart, strictly, without verifying. Raises `Malformed`.

    The specification lets the `extra` line be left out; a receipt of this product always has it.
    """
    if len(octets) > RECEIPT_LENGTH_MAX:
        raise Malformed("$", "is too long for a receipt")
    head, blank, checkpoint = octets.partition(b"\n\n")
    if not blank or not checkpoint:
        raise Malformed("$.checkpoint", "is missing")
    try:
        lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise Malformed("$", "is not ASCII above the checkpoint") from None
    if lines[0] != HEADER:
        raise Malformed("$", f"does not begin with {HEADER}")
    if len(lines) < 3 or not lines[1].startswith(_EXTRA):
        raise Malformed("$.extra", "is missing, so there is no entry")
    entry = decode_base64(lines[1].removeprefix(_EXTRA), path="$.extra")
    if not 0 < len(entry) <= ENTRY_LENGTH_MAX:
        raise Malformed("$.extra", "is empty, or longer than an entry")
    index = _INDEX.fullmatch(lines[2])
    if not index or int(index[1]) > SIZE_MAX:
        raise Malformed("$.index", "is not a plain decimal number up to 2^53-1")
    return Receipt(entry, int(index[1]), _parse_proof(lines[3:]), checkpoint)


def verify_receipt(
    octets: bytes,
    *,
    log_keys: Sequence[VerifierKey],
    cosigners: Sequence[VerifierKey] = (),
    check_body: CheckBody | None = None,
) -> VerifiedReceipt:
    """Check a receipt with nothing but pinned keys.

    Order: form, the checkpoint's signatures, the proof from the entry's bytes to the signed root,
    then the entry itself, whose origin and index must be those of the receipt. Raises `Malformed`,
    `NoteInvalid` or `ProofInvalid`.
    """
    receipt = parse_receipt(octets)
    opened = open_checkpoint(receipt.checkpoint, log_keys=log_keys, cosigners=cosigners)
    # The hash is taken of the bytes first: what is not in the log need not be read any further.
    verify_inclusion(
        leaf=leaf_hash(receipt.entry),
        index=receipt.index,
        size=opened.checkpoint.size,
        proof=receipt.proof,
        root=opened.checkpoint.root,
    )
    entry = read_entry(
        receipt.entry,
        origin=Origin(opened.checkpoint.origin),
        index=receipt.index,
        check_body=check_body,
    )
    return VerifiedReceipt(entry, opened)


def _parse_proof(lines: Sequence[str]) -> tuple[bytes, ...]:
    if len(lines) > PROOF_HASHES_MAX:
        raise Malformed("$.proof", f"has more than {PROOF_HASHES_MAX} hashes")
    proof: list[bytes] = []
    for position, line in enumerate(lines):
        path = f"$.proof[{position}]"
        proof.append(decode_base64(line, path=path))
        if len(proof[-1]) != HASH_LENGTH:
            raise Malformed(path, "is not 32 bytes long")
    return tuple(proof)
