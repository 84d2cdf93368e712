"""Claims on keys as plain values: what one release wrote the next one reads."""

from __future__ import annotations

import pytest

from ledger.core.claims import Claim
from ledger.core.step import Arguments
from ledger.core.vocabulary import EffectClass, StepState


def _claim() -> Claim:
    arguments = Arguments("a" * 32, "b" * 32, b"\x01")
    effect = EffectClass.NON_IDEMPOTENT_WRITE
    return Claim("send", "k", "run-2", "s", StepState.NO_EFFECT, arguments, effect)


def _again(claim: Claim) -> Claim:
    return Claim.load(
        tool=claim.tool,
        key=claim.key,
        run=claim.run,
        step=claim.step,
        state=claim.state.value,
        index=claim.settled_index,
        values=claim.dump(),
    )


@pytest.mark.parametrize("runs", [[], ["run-1"], ["run-1", "run-2"], ["run-1", "run-2", "run-3"]])
def test_a_claim_is_read_back_with_every_open_contradiction(runs: list[str]) -> None:
    claim = _claim()
    for run in [*runs, *runs]:
        claim.contradict(run=run, step="s")
    assert claim.contradicted_by == tuple((run, "s") for run in runs)
    assert _again(claim) == claim


def test_a_single_contradiction_stands_as_release_0_1_0_wrote_it() -> None:
    claim = _claim()
    claim.contradict(run="run-1", step="s")
    assert claim.dump()[6] == ["run-1", "s"]


def test_settling_one_contradiction_leaves_the_others_in_their_order() -> None:
    claim = _claim()
    for run in ("run-1", "run-2", "run-3"):
        claim.contradict(run=run, step="s")
    claim.settle_contradiction(run="run-2", step="s")
    claim.settle_contradiction(run="run-2", step="other")
    assert claim.contradicted_by == (("run-1", "s"), ("run-3", "s"))
