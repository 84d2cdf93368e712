"""The confirmer: trusted code that asks the system of record, and settles what it can prove.

It says `executed` where the shop has a receipt for the step's key. It says `not_executed` only
where the shop had none when the operation deadline was past, because until then the call might
still land. It never guesses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ledger.cli.demo.shop import Shop
from ledger.client import Ledger, Reason, Reconciled, Refused, UnknownStep, Verdict

_MARGIN_S: Final = 0.02
_TRIES_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Settled:
    """One decision. `receipt` is empty where the effect did not happen; `index` its entry's."""

    run: str
    step: str
    verdict: Verdict
    receipt: str
    index: int


class Confirmer:
    """Settles the unknowns of the demo's own runs."""

    def __init__(self, client: Ledger, shop: Shop, runs: Collection[str]) -> None:
        self._client = client
        self._shop = shop
        self._runs = frozenset(runs)

    def unknowns(self) -> list[UnknownStep]:
        """What nobody can say the outcome of, most dangerous first."""
        return [each for each in self._client.unknowns() if each.run in self._runs]

    def settle(self, unknown: UnknownStep, *, waits: Callable[[float], None]) -> Settled:
        """Ask the shop and decide. `waits` is told how many seconds a decision has to wait."""
        receipt = self._shop.receipt(unknown.key)
        if receipt is None:
            self._wait_for_deadline(unknown, waits)
            receipt = self._shop.receipt(unknown.key)
        if receipt is not None:
            decided = self._client.reconcile(
                unknown,
                Verdict.EXECUTED,
                reason_code="receipt_found",
                reason=f"The shop has receipt {receipt} under this key.",
                evidence=[{"receipt": receipt}],
                result={"receipt": receipt},
            )
            verdict = Verdict.EXECUTED
        else:
            decided = self._not_executed(unknown)
            verdict = Verdict.NOT_EXECUTED
        index = decided.append.index if decided.append else -1
        return Settled(unknown.run, unknown.step, verdict, receipt or "", index)

    def _not_executed(self, unknown: UnknownStep) -> Reconciled:
        for _ in range(_TRIES_MAX):
            try:
                return self._client.reconcile(
                    unknown,
                    Verdict.NOT_EXECUTED,
                    reason_code="no_receipt",
                    reason="The operation deadline is past and the shop has no call of this key.",
                )
            except Refused as refused:
                if refused.reason is not Reason.TOO_EARLY:
                    raise
            time.sleep(_MARGIN_S)
        raise TimeoutError("the ledger's clock does not reach the operation deadline")

    def _wait_for_deadline(self, unknown: UnknownStep, waits: Callable[[float], None]) -> None:
        if unknown.not_executed_from is None:
            return
        left_s = (unknown.not_executed_from - datetime.now(UTC)).total_seconds() + _MARGIN_S
        if left_s > 0:
            waits(left_s)
            time.sleep(left_s)
