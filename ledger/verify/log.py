"""Verifying a whole log: from a live server, an exported folder, or any iterator of entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from ledger.core.checkpoint import Checkpoint, open_checkpoint, parse_checkpoint_text
from ledger.core.errors import Malformed
from ledger.core.events import check_body
from ledger.core.merkle import EMPTY_ROOT
from ledger.core.note import NoteInvalid, parse_note
from ledger.core.proof_check import ProofInvalid
from ledger.core.receipt import verify_receipt
from ledger.verify.entries import Disclosed, EntryChecks, Point, point_of
from ledger.verify.policy import Policy
from ledger.verify.report import Code, Findings, Judgement, Report

__all__ = ["Disclosed", "EntriesSource", "LogSource", "SourceBroken", "verify_log"]

_PROGRESS_EVERY: Final = 1_024


class SourceBroken(Exception):
    """A source cannot give the next entry of its log; says why."""


class LogSource(Protocol):
    """Where a log is read from. Nothing that it says is believed."""

    def checkpoint(self) -> bytes | None:
        """The signed note of the log's head, None where there is none. Asked for first."""

    def entries(self, *, size: int) -> Iterator[bytes]:
        """The bytes of the entries 0 to `size` - 1, in order. Ends early where there are fewer, or
        raises `SourceBroken`."""

    def leaf(self, leaf: bytes) -> None:
        """Told the leaf hash of each entry in order, to compare tree hashes that came along."""

    def end(self, findings: Findings) -> Sequence[str]:
        """Told that all entries were read: adds what it found, answers what it did not judge."""


class EntriesSource:
    """A log read from an iterator, such as the SDK's over a live server."""

    def __init__(self, note: bytes | None, entries: Iterable[bytes]) -> None:
        self._note = note
        self._entries = entries

    def checkpoint(self) -> bytes | None:
        """The note that it was made with."""
        return self._note

    def entries(self, *, size: int) -> Iterator[bytes]:
        """What the iterator gives, which may be more."""
        return iter(self._entries)

    def leaf(self, leaf: bytes) -> None:
        """No tree hashes came along."""

    def end(self, findings: Findings) -> Sequence[str]:
        """Nothing more to find."""
        return ()


@dataclass(slots=True)
class _Outside:
    """What is known of the log from elsewhere, all of it signed by pinned keys but `at_least`."""

    points: list[Point] = field(default_factory=list)
    leaves: dict[int, list[tuple[str, bytes]]] = field(default_factory=dict)
    size_min: int = 0
    is_there: bool = False
    reasons: list[str] = field(default_factory=list)


def verify_log(
    source: LogSource,
    *,
    policy: Policy | None,
    held: Sequence[bytes] = (),
    receipts: Sequence[bytes] = (),
    at_least: int | None = None,
    disclosed: Sequence[Disclosed] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Every check on a log up to the size that its checkpoint signs.

    `held` are checkpoints and `receipts` receipts that the auditor has from before; `at_least` is a
    size that he knows it had. One of them must be reached for completeness to be shown. `progress`
    is called with (entries done, entries in all). Raises what the source raises of itself, never
    for what the bytes hold.
    """
    findings = Findings()
    signed = _head(source.checkpoint(), policy, findings)
    head, reasons = signed.said, list(signed.reasons)
    outside = _outside(head, policy, held, receipts, at_least, findings)
    reasons += outside.reasons
    checks = EntryChecks(
        origin="" if head is None else head.origin,
        findings=findings,
        points=outside.points,
        leaves=outside.leaves,
        disclosed=_by_index(disclosed),
        on_leaf=source.leaf,
    )
    size = 0 if head is None else head.size
    _read_all(source, checks, size, findings, progress)
    root = checks.finish().root()
    not_judged = source.end(findings)
    if head is not None:
        _judge_size(checks, head, root, outside, findings)
    if checks.size == 0:
        reasons.append("there is no entry to verify")
    if checks.unknown_versions:
        reasons.append(f"{checks.unknown_versions:,} entries are of a version not known here")
    verdict = _verdict(findings, reasons, checks, outside)
    if verdict is Judgement.INCOMPLETE:
        reasons.append(
            "nothing from outside the log says how long it should be: give a checkpoint or receipt "
            "that you hold, or the least size that you know of"
        )
    return Report(
        verdict=verdict,
        scope="log",
        origin="" if head is None else head.origin,
        size=checks.size,
        root=root,
        last_recorded_us=checks.last_us,
        findings=tuple(findings.kept),
        findings_beyond=tuple(sorted(findings.dropped.items())),
        reasons=tuple(reasons),
        not_proven=(*_not_proven(checks, len(disclosed)), *not_judged),
        not_understood=tuple(sorted(checks.not_understood.items())),
        runs=checks.runs,
        runs_open=checks.runs_open,
        after_close=checks.after_close,
        payloads=checks.payloads,
        payloads_checked=checks.payloads_checked,
        signed_by=signed.keys,
    )


@dataclass(frozen=True, slots=True)
class _Head:
    """What the checkpoint says. `keys` are the pinned ones that signed it: none, and `reasons`,
    where it is read only to know which entries to check."""

    said: Checkpoint | None
    keys: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


def _head(note: bytes | None, policy: Policy | None, findings: Findings) -> _Head:
    if note is None:
        return _Head(None, (), ("there is no checkpoint",))
    try:
        said = parse_checkpoint_text(parse_note(note).text)
    except (NoteInvalid, Malformed) as fault:
        return _Head(None, (), (f"the checkpoint cannot be read: {fault}",))
    if policy is None:
        return _Head(said, (), ("no key is pinned, so nobody vouches for the log",))
    try:
        opened = open_checkpoint(note, log_keys=policy.log_keys)
    except NoteInvalid as fault:
        if names_pinned(note, policy):
            findings.add(Code.CHECKPOINT_INVALID, None, fault.reason)
        return _Head(said, (), (f"the checkpoint proves nothing: {fault.reason}",))
    return _Head(opened.checkpoint, tuple(str(key) for key in opened.log_keys))


def names_pinned(note: bytes, policy: Policy) -> bool:
    """Whether a pinned key is said to have signed: then a bad note is evidence, not absence.

    Raises `NoteInvalid` for what is no note at all.
    """
    pinned = {(key.name, key.key_id) for key in policy.log_keys}
    return any((line.name, line.key_id) in pinned for line in parse_note(note).signatures)


def _outside(
    head: Checkpoint | None,
    policy: Policy | None,
    held: Sequence[bytes],
    receipts: Sequence[bytes],
    at_least: int | None,
    findings: Findings,
) -> _Outside:
    outside = _Outside()
    if at_least is not None and at_least > 0:
        outside.size_min = at_least
        outside.is_there = True
    if head is None:
        return outside
    outside.points.append(point_of(head, source="the checkpoint", code=Code.ROOT_DIFFERS))
    if policy is None:
        return outside
    for number, note in enumerate(held, 1):
        source = f"held checkpoint {number}"
        try:
            known = open_checkpoint(note, log_keys=policy.log_keys).checkpoint
        except NoteInvalid as fault:
            outside.reasons.append(f"{source} proves nothing: {fault.reason}")
            continue
        _hold(outside, head, known, source, findings)
    for number, receipt in enumerate(receipts, 1):
        source = f"receipt {number}"
        try:
            verified = verify_receipt(receipt, log_keys=policy.log_keys, check_body=check_body)
        except (Malformed, NoteInvalid, ProofInvalid) as fault:
            findings.add(Code.RECEIPT_DIFFERS, None, f"{source} does not verify: {fault}")
            continue
        entry = verified.entry
        if _hold(outside, head, verified.checkpoint.checkpoint, source, findings):
            outside.leaves.setdefault(entry.index, []).append((source, entry.leaf_hash))
    return outside


def _hold(
    outside: _Outside, head: Checkpoint, known: Checkpoint, source: str, findings: Findings
) -> bool:
    """Notes a checkpoint of the same log; answers whether it is one."""
    if known.origin != head.origin:
        findings.add(Code.HELD_DIFFERS, None, f"{source} is of another log, {known.origin}")
        return False
    if known.size == 0:
        return known.root == EMPTY_ROOT
    outside.points.append(point_of(known, source=source, code=Code.HELD_DIFFERS))
    outside.size_min = max(outside.size_min, known.size)
    outside.is_there = True
    return True


def _by_index(disclosed: Sequence[Disclosed]) -> dict[int, list[Disclosed]]:
    found: dict[int, list[Disclosed]] = {}
    for one in disclosed:
        found.setdefault(one.index, []).append(one)
    return found


def _read_all(
    source: LogSource,
    checks: EntryChecks,
    size: int,
    findings: Findings,
    progress: Callable[[int, int], None] | None,
) -> None:
    try:
        for raw in source.entries(size=size):
            if checks.size == size:
                break
            checks.add(raw)
            if progress is not None and checks.size % _PROGRESS_EVERY == 0:
                progress(checks.size, size)
    except SourceBroken as fault:
        findings.add(Code.FILE_UNREADABLE, checks.size, str(fault))
    if progress is not None:
        progress(checks.size, size)


def _judge_size(
    checks: EntryChecks, head: Checkpoint, root: bytes, outside: _Outside, findings: Findings
) -> None:
    if checks.size < head.size:
        findings.add(
            Code.SHORTER, checks.size, f"the checkpoint signs {head.size:,} entries; here they end"
        )
    if outside.size_min > head.size:
        findings.add(
            Code.SHORTER,
            None,
            f"the log's checkpoint is of size {head.size:,}, and it had {outside.size_min:,}",
        )


def _verdict(
    findings: Findings, reasons: Sequence[str], checks: EntryChecks, outside: _Outside
) -> Judgement:
    if findings.kept and not _only_of_unknown_version(findings, checks):
        return Judgement.FAILED
    if reasons:
        return Judgement.UNVERIFIABLE
    return Judgement.VERIFIED if outside.is_there else Judgement.INCOMPLETE


def _only_of_unknown_version(findings: Findings, checks: EntryChecks) -> bool:
    """A log of a later version is not tampered with; it is only not for this reader."""
    found = len(findings.kept) + sum(findings.dropped.values())
    return found == checks.unknown_versions


def _not_proven(checks: EntryChecks, disclosed: int) -> list[str]:
    said = [f"that nothing was recorded after entry {checks.size - 1:,}"] if checks.size else []
    hidden = checks.payloads - checks.payloads_checked
    if hidden > 0:
        said.append(f"what {hidden:,} of {checks.payloads:,} payloads hold: they are not disclosed")
    if checks.not_understood:
        count = sum(checks.not_understood.values())
        said.append(f"what {count:,} entries of types not known here mean")
    if checks.size:
        said.append("the times: they are the ledger's own word, without a timestamp authority")
        said.append("that no other history was shown to somebody else: no witness cosigned")
    return said
