"""The confirmer: finds a payment by the key that the ledger gave the tool to pass on.

PAYMENTS=payments.db ledger confirm --module examples.payments.confirmer:confirmer --once
"""

from __future__ import annotations

import os
from pathlib import Path

from examples.payments.provider import Provider
from ledger.client import CannotTell, Executed, NotExecuted, UnknownStep


def confirmer(unknown: UnknownStep) -> Executed | NotExecuted | CannotTell:
    """Whether the provider has the payment. Never pays."""
    if unknown.tool != "pay":
        return CannotTell(f"{unknown.tool} is no tool of this provider")
    found = Provider(Path(os.environ["PAYMENTS"])).find(unknown.key)
    if found is None:
        return NotExecuted()
    return Executed({"payment": found}, external_reference=found)
