"""The demo's confirmer: looks the step's key up in the shop, and lets the SDK settle what it says.

It says `executed` where the shop has a receipt. Where it has none it says `not executed`, which
counts only if the shop was asked after the operation deadline: until then the call might still
land, and the step is asked about again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, assert_never

from ledger.cli.demo.shop import Shop
from ledger.cli.stops import Stop
from ledger.client import (
    Confirming,
    Executed,
    Ledger,
    LeftForPerson,
    NotExecuted,
    UnknownStep,
    Verdict,
    Waits,
)
from ledger.client import Settled as Decided

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
    """Settles the unknowns of the demo's own runs. `shop` is the shop's file."""

    def __init__(self, client: Ledger, shop: Path, runs: Collection[str]) -> None:
        self._client = client
        self._shop = shop
        self._runs = frozenset(runs)
        self._confirming = Confirming(client, self._ask, clock_margin_s=_MARGIN_S)

    def unknowns(self) -> list[UnknownStep]:
        """What nobody can say the outcome of, most dangerous first."""
        return [each for each in self._client.unknowns() if each.run in self._runs]

    def settle(self, unknown: UnknownStep, *, waits: Callable[[float], None]) -> Settled:
        """Ask the shop until it is decided. `waits` is told once how many seconds that has to wait.
        Raises `Stop` where the ledger leaves the step for a person."""
        for tried in range(_TRIES_MAX):
            found = self._confirming.settle(unknown)
            match found:
                case Decided(_, verdict, index):
                    receipt = self._receipt(unknown) if verdict is Verdict.EXECUTED else None
                    return Settled(
                        unknown.run,
                        unknown.step,
                        verdict,
                        receipt or "",
                        -1 if index is None else index,
                    )
                case Waits(_, until):
                    left_s = max(_MARGIN_S, (until - datetime.now(UTC)).total_seconds())
                    if not tried:
                        waits(left_s)
                    time.sleep(left_s)
                case LeftForPerson(_, why):
                    raise _left(unknown, why)
                case _:
                    assert_never(found)
        raise _left(unknown, "the ledger's clock does not reach the operation deadline")

    def _ask(self, unknown: UnknownStep) -> Executed | NotExecuted:
        receipt = self._receipt(unknown)
        if receipt is None:
            return NotExecuted(
                reason_code="no_receipt",
                reason="The operation deadline is past and the shop has no call of this key.",
            )
        return Executed(
            {"receipt": receipt},
            external_reference=receipt,
            reason_code="receipt_found",
            reason=f"The shop has receipt {receipt} under this key.",
        )

    def _receipt(self, unknown: UnknownStep) -> str | None:
        # The SDK asks from a thread of its own, where the director's connection cannot go.
        with closing(Shop(self._shop)) as shop:
            return shop.receipt(unknown.key)


def _left(unknown: UnknownStep, why: str) -> Stop:
    return Stop(
        f"{unknown.run} {unknown.step} could not be settled: {why}.",
        safe="Nothing was decided of it, and nothing is done again while it is unknown.",
        next="See it with `ledger unknown` and `ledger show`.",
    )
