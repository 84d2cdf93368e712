"""What the service asks of the house; `server.py` wires it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ledger.core.answers import Answered, LeaseGranted
from ledger.core.commands import Caller, RenewLease, Request
from ledger.core.refusals import Refused
from ledger.failures import Failure


class Submitting(Protocol):
    """The only writer."""

    async def submit(self, requests: Sequence[Request]) -> list[Answered | Failure]:
        """Answers each request in order. An answer that says an append happened is durable. Being
        cancelled while waiting tears no commit."""

    async def renew(self, caller: Caller, command: RenewLease) -> LeaseGranted | Refused | Failure:
        """Extends a live lease. Appends nothing."""
