"""Each way to change a log, and what the verifier says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from ledger.core.canonical import JsonObject
from ledger.core.chain import ChainEvent
from ledger.core.events import EvidenceAttached, RunClosed, RunOpened, StepPlanned, StepWithdrawn
from ledger.core.ids import RunId
from ledger.core.note_key import Signer
from ledger.core.vocabulary import EffectClass, RunStatus
from ledger.verify import Code, Disclosed, EntriesSource, Judgement, Policy, Report, verify_log
from tests.support.logs import ORIGIN, RESULT, SALT, entries_of, event, events
from tests.unit.verify.logs import (
    ENTRIES,
    POLICY,
    SIGNER,
    SIZE,
    another_origin,
    note,
    receipt,
    verified,
)

HELD = note(ENTRIES[:20])
IMPOSTOR = Signer.of(name=ORIGIN, seed=bytes(range(32)))


def codes(report: Report) -> set[Code]:
    return {finding.code for finding in report.findings}


def found_at(report: Report, code: Code) -> list[int | None]:
    return [finding.index for finding in report.findings if finding.code is code]


def test_a_whole_log_that_reaches_what_is_held_is_verified() -> None:
    report = verified(ENTRIES, held=[HELD])
    assert (report.verdict, report.verdict.exit_code) == (Judgement.VERIFIED, 0)
    assert report.line() == (
        f"VERIFIED to size {SIZE:,}, 2026-01-01T00:00:00.0000{SIZE - 1:02d}Z; nothing newer proven"
    )
    assert (report.runs, report.runs_open, report.after_close) == (4, 2, 2)
    assert report.signed_by == (str(SIGNER.key),)
    assert any("nothing was recorded after" in said for said in report.not_proven)
    assert any("12 of 12 payloads" in said for said in report.not_proven)


@pytest.mark.parametrize("at_least", [1, SIZE])
def test_a_size_that_the_auditor_knows_of_shows_completeness(at_least: int) -> None:
    assert verified(ENTRIES, at_least=at_least).verdict is Judgement.VERIFIED


def test_a_receipt_that_the_auditor_holds_shows_completeness() -> None:
    assert verified(ENTRIES, receipts=[receipt(ENTRIES[:9], 4)]).verdict is Judgement.VERIFIED


def test_a_whole_log_of_which_nothing_is_held_is_incomplete() -> None:
    report = verified(ENTRIES)
    assert (report.verdict, report.verdict.exit_code) == (Judgement.INCOMPLETE, 3)
    assert "give a checkpoint or receipt that you hold" in report.line()


@pytest.mark.parametrize("at_least", [None, 0, 1])
def test_nothing_empty_is_ever_verified(at_least: int | None) -> None:
    for source in (EntriesSource(note([]), []), EntriesSource(None, []), EntriesSource(b"", [])):
        report = verify_log(source, policy=POLICY, at_least=at_least)
        expected = Judgement.FAILED if at_least and source.checkpoint() else Judgement.UNVERIFIABLE
        assert report.verdict is expected
        assert report.size == 0


def test_a_held_checkpoint_of_size_0_shows_nothing() -> None:
    assert verified(ENTRIES, held=[note([])]).verdict is Judgement.INCOMPLETE


Attack = Callable[[list[bytes]], Sequence[bytes]]


def _edit(entries: list[bytes]) -> list[bytes]:
    changed = entries[7].replace(b"rt-1", b"rt-2")
    return [*entries[:7], changed, *entries[8:]]


def _delete(entries: list[bytes]) -> list[bytes]:
    return [*entries[:7], *entries[8:]]


def _insert(entries: list[bytes]) -> list[bytes]:
    return [*entries[:7], entries[3], *entries[7:]]


def _reorder(entries: list[bytes]) -> list[bytes]:
    return [*entries[:7], entries[11], *entries[8:11], entries[7], *entries[12:]]


ATTACKS = {"edit": _edit, "delete": _delete, "insert": _insert, "reorder": _reorder}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_a_changed_log_under_its_old_checkpoint_is_found(attack: Attack) -> None:
    report = verified(attack(list(ENTRIES)), note(ENTRIES), held=[HELD])
    assert (report.verdict, report.verdict.exit_code) == (Judgement.FAILED, 5)
    assert {Code.ROOT_DIFFERS, Code.HELD_DIFFERS} & codes(report)
    assert report.line().startswith("FAILED")


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_a_changed_log_that_was_signed_anew_is_found(attack: Attack) -> None:
    changed = attack(list(ENTRIES))
    report = verified(changed, note(changed), at_least=1)
    assert report.verdict is Judgement.FAILED
    assert {Code.RUN_CHAIN_BROKEN, Code.ENTRY_MISPLACED} & codes(report)


def test_a_history_rewritten_whole_and_signed_anew_is_found_by_what_is_held() -> None:
    rewritten = entries_of(events(runs=4, steps=3, first=50))
    assert verified(rewritten, at_least=1).verdict is Judgement.VERIFIED  # by itself it is sound
    report = verified(rewritten, held=[HELD])
    assert (report.verdict, codes(report)) == (Judgement.FAILED, {Code.HELD_DIFFERS})
    assert found_at(verified(rewritten, receipts=[receipt(ENTRIES, 4)]), Code.RECEIPT_DIFFERS) == [
        4
    ]


@pytest.mark.parametrize("left", [1, 19, SIZE - 1])
def test_a_cut_tail_is_found(left: int) -> None:
    cut = ENTRIES[:left]
    under_old_note = verified(cut, note(ENTRIES), held=[HELD])
    assert under_old_note.verdict is Judgement.FAILED
    assert found_at(under_old_note, Code.SHORTER) == [left]
    for held in ({"held": [note(ENTRIES)]}, {"receipts": [receipt(ENTRIES, 2)]}):
        signed_anew = verified(cut, **held)  # type: ignore[arg-type]
        assert (signed_anew.verdict, codes(signed_anew)) == (Judgement.FAILED, {Code.SHORTER})
    assert verified(cut, at_least=SIZE).verdict is Judgement.FAILED
    assert verified(cut).verdict is Judgement.INCOMPLETE


def test_the_cut_tail_of_a_run_is_found_by_what_comes_after_it() -> None:
    # The last entry of run-1 gone, and every later index and hash made anew.
    all_events = events(runs=4, steps=3)
    last = max(at for at, one in enumerate(all_events) if one.run_id == "run-1")
    shortened = entries_of([*all_events[:last], *all_events[last + 1 :]])
    report = verified(shortened, held=[note(ENTRIES)])
    assert report.verdict is Judgement.FAILED


def test_a_fresh_log_under_another_origin_is_not_the_one_that_is_held() -> None:
    other = another_origin(SIZE)
    signer = Signer.of(name="ledger.test/two", seed=bytes(32))
    policy = Policy((SIGNER.key, signer.key))
    checkpoint = note(other, signer=signer, origin="ledger.test/two")
    report = verified(other, checkpoint, policy=policy, held=[HELD])
    assert (report.verdict, codes(report)) == (Judgement.FAILED, {Code.HELD_DIFFERS})


def test_entries_of_another_log_are_found_one_by_one() -> None:
    other = another_origin(SIZE)
    report = verified(other, note(other), at_least=1)
    assert found_at(report, Code.ENTRY_MISPLACED) == [*range(SIZE)]


def test_a_checkpoint_of_another_key_verifies_nothing() -> None:
    report = verified(ENTRIES, note(ENTRIES, signer=IMPOSTOR), held=[HELD])
    assert (report.verdict, report.verdict.exit_code) == (Judgement.UNVERIFIABLE, 4)
    assert "signed by no pinned key" in report.line()


def test_a_key_of_another_name_does_not_sign_for_the_log() -> None:
    other = Signer.of(name="ledger.test/two", seed=bytes(32))
    text = note(ENTRIES).partition(b"\n\n")[0] + b"\n\n"
    signature = note(another_origin(3), signer=other, origin="ledger.test/two").partition(b"\n\n")[
        2
    ]
    report = verified(ENTRIES, text + signature, policy=Policy((other.key,)), at_least=1)
    assert report.verdict is Judgement.FAILED
    assert codes(report) == {Code.CHECKPOINT_INVALID}


def test_a_stripped_signature_verifies_nothing() -> None:
    stripped = note(ENTRIES).partition(b"\n\n")[0] + b"\n\n"
    assert verified(ENTRIES, stripped, at_least=1).verdict is Judgement.UNVERIFIABLE


def test_a_pinned_keys_signature_of_another_text_is_evidence() -> None:
    changed = re.sub(rb"\n(\d+)\n", rb"\n2\1\n", note(ENTRIES), count=1)
    report = verified(ENTRIES, changed, at_least=1)
    assert report.verdict is Judgement.FAILED
    assert Code.CHECKPOINT_INVALID in codes(report)


def test_without_a_pinned_key_nothing_is_verified_but_damage_is_still_found() -> None:
    assert verified(ENTRIES, policy=None, at_least=1).verdict is Judgement.UNVERIFIABLE
    assert verified(_edit(list(ENTRIES)), policy=None).verdict is Judgement.FAILED


def test_a_held_checkpoint_that_proves_nothing_is_not_passed_over() -> None:
    report = verified(ENTRIES, held=[note(ENTRIES, signer=IMPOSTOR), HELD])
    assert report.verdict is Judgement.UNVERIFIABLE
    assert "held checkpoint 1" in report.line()


def test_a_receipts_proof_at_another_index_is_found() -> None:
    moved = receipt(ENTRIES, 4).replace(b"\nindex 4\n", b"\nindex 5\n")
    report = verified(ENTRIES, receipts=[moved])
    assert (report.verdict, codes(report)) == (Judgement.FAILED, {Code.RECEIPT_DIFFERS})


def test_a_request_that_stands_twice_is_found() -> None:
    one = events(runs=1, steps=1)
    again = events(runs=1, steps=1)
    renamed = [ChainEvent(RunId("run-9"), e.version, e.type, e.event) for e in again[1:]]
    doubled = entries_of([*one, *renamed])
    report = verified(doubled, at_least=1)
    assert found_at(report, Code.REQUEST_REPEATED) == [*range(len(one), len(doubled))]


def _run(*bodies: object) -> list[bytes]:
    return entries_of(
        [
            ChainEvent(RunId("r"), at, body.TYPE, event(body, request=at + 1))  # type: ignore[attr-defined, arg-type]
            for at, body in enumerate(bodies)
        ]
    )


PLANNED = StepPlanned(step="s", tool="t", version="1", effect=EffectClass.READ_ONLY)


def test_a_run_that_its_first_entry_does_not_open_is_found() -> None:
    assert found_at(verified(_run(PLANNED), at_least=1), Code.RUN_RULE_BROKEN) == [0]


def test_driving_after_the_close_is_found_and_evidence_is_not() -> None:
    closed = RunClosed(status=RunStatus.COMPLETED)
    lawful = _run(RunOpened(), closed, EvidenceAttached(kind="note"))
    assert verified(lawful, at_least=1).verdict is Judgement.VERIFIED
    driven = _run(RunOpened(), closed, StepWithdrawn(step="s"), RunOpened())
    assert found_at(verified(driven, at_least=1), Code.RUN_RULE_BROKEN) == [2, 3, 3]


def test_a_time_that_goes_back_is_found() -> None:
    late = entries_of(events(runs=1, steps=1))
    back = late[3].replace(b"00:00:00.", b"00:00:01.")
    report = verified([*late[:3], back, *late[4:]], at_least=1)
    assert found_at(report, Code.TIME_DECREASED) == [4]


def test_an_entry_that_is_not_canonical_is_found() -> None:
    spaced = ENTRIES[5].replace(b'"index":', b'"index": ')
    report = verified([*ENTRIES[:5], spaced, *ENTRIES[6:]], at_least=1)
    assert found_at(report, Code.ENTRY_MALFORMED) == [5]


def test_an_unknown_type_is_lawful_and_said() -> None:
    opened = events(runs=1, steps=1)
    renamed = ChainEvent(
        opened[3].run_id,
        opened[3].version,
        "step.imagined",
        opened[3].event.replace(opened[3].type.encode(), b"step.imagined"),
    )
    log = entries_of([*opened[:3], renamed, *opened[4:]])
    report = verified(log, at_least=1)
    assert report.verdict is Judgement.VERIFIED
    assert report.not_understood == (("step.imagined", 1),)


def test_entries_of_a_later_version_are_not_for_this_reader() -> None:
    later = [entry.replace(b"ledger-entry/1", b"ledger-entry/2") for entry in ENTRIES]
    report = verified(later, at_least=1)
    assert (report.verdict, report.verdict.exit_code) == (Judgement.UNVERIFIABLE, 4)
    assert verified(later, note(ENTRIES), at_least=1).verdict is Judgement.FAILED


def _disclosed(payload: bytes = RESULT, salt: bytes = SALT, name: str = "result") -> Disclosed:
    index = next(at for at, entry in enumerate(ENTRIES) if b'"name":"result"' in entry)
    return Disclosed(index, name, salt, payload)


def test_a_disclosed_payload_is_checked_against_its_entry() -> None:
    def report(disclosed: Disclosed) -> Report:
        source = EntriesSource(note(ENTRIES), ENTRIES)
        return verify_log(source, policy=POLICY, at_least=1, disclosed=[disclosed])

    good = report(_disclosed())
    assert (good.verdict, good.payloads, good.payloads_checked) == (Judgement.VERIFIED, 12, 1)
    for bad in (
        _disclosed(b"{}"),
        _disclosed(salt=bytes(32)),
        _disclosed(salt=b""),
        _disclosed(name="arguments"),
    ):
        assert codes(report(bad)) == {Code.PAYLOAD_DIFFERS}


def test_progress_is_told_to_the_end() -> None:
    told: list[tuple[int, int]] = []
    source = EntriesSource(note(ENTRIES), ENTRIES)
    verify_log(source, policy=POLICY, progress=lambda done, size: told.append((done, size)))
    assert told[-1] == (SIZE, SIZE)


def test_a_report_reads_as_json() -> None:
    members: JsonObject = verified(_edit(list(ENTRIES)), note(ENTRIES)).as_json()  # type: ignore[assignment]
    assert members["verdict"] == "FAILED"
    findings = members["findings"]
    assert isinstance(findings, list)
    assert {"code", "index", "text"} == set(findings[0])  # type: ignore[arg-type]
