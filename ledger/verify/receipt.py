"""Verifying one receipt: an entry, proven to stand in its log, with no server and no log."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.core.errors import Malformed
from ledger.core.events import BODIES, check_body
from ledger.core.note import NoteInvalid, parse_note
from ledger.core.proof_check import ProofInvalid
from ledger.core.receipt import parse_receipt, verify_receipt
from ledger.verify.log import names_pinned
from ledger.verify.policy import Policy
from ledger.verify.report import Code, Finding, Judgement, Report


def verify_receipt_file(octets: bytes, *, policy: Policy | None) -> Report:
    """Judge a receipt. Its scope is its one entry, which is complete by itself."""
    if not octets:
        return _unverifiable("the receipt is empty")
    if policy is None:
        return _unverifiable("no key is pinned, so nobody vouches for the receipt")
    try:
        receipt = parse_receipt(octets)
        parse_note(receipt.checkpoint)
    except (Malformed, NoteInvalid) as fault:
        return _unverifiable(f"it is no receipt: {fault}")
    try:
        verified = verify_receipt(octets, log_keys=policy.log_keys, check_body=check_body)
    except NoteInvalid as fault:
        if names_pinned(receipt.checkpoint, policy):
            return _failed(Code.CHECKPOINT_INVALID, receipt.index, fault.reason)
        return _unverifiable(f"its checkpoint proves nothing: {fault.reason}")
    except ProofInvalid as fault:
        return _failed(Code.RECEIPT_DIFFERS, receipt.index, fault.reason)
    except Malformed as fault:
        if fault.path == "$.v":
            return _unverifiable("its entry is of a version not known here")
        return _failed(Code.ENTRY_MALFORMED, receipt.index, str(fault))
    entry, checkpoint = verified.entry, verified.checkpoint.checkpoint
    return Report(
        verdict=Judgement.VERIFIED,
        scope=f"entry {entry.index:,} of {checkpoint.size:,}",
        origin=checkpoint.origin,
        size=checkpoint.size,
        root=checkpoint.root,
        last_recorded_us=entry.recorded_at_us,
        not_proven=(
            "the other entries: only this one and its place were checked",
            "that its run ends with it, or what came after it",
        ),
        not_understood=() if entry.type in BODIES else ((entry.type, 1),),
        signed_by=tuple(str(key) for key in verified.checkpoint.log_keys),
    )


def _failed(code: Code, index: int, text: str) -> Report:
    return _report(Judgement.FAILED, findings=(Finding(code, index, text),))


def _unverifiable(reason: str) -> Report:
    return _report(Judgement.UNVERIFIABLE, reasons=(reason,))


def _report(
    verdict: Judgement, *, findings: Sequence[Finding] = (), reasons: Sequence[str] = ()
) -> Report:
    return Report(
        verdict=verdict,
        scope="entry",
        origin="",
        size=0,
        root=b"",
        last_recorded_us=None,
        findings=tuple(findings),
        reasons=tuple(reasons),
    )
