"""What is wrong with a request's form: `Malformed` with a field path as a client would write it."""

from __future__ import annotations

from ledger.core.errors import Malformed


class LimitPassed(Malformed):
    """A written limit was passed at `path`."""


def under(prefix: str, fault: Malformed) -> Malformed:
    """The same fault, seen from the message that holds `prefix`."""
    path = f"{prefix}.{fault.path}" if fault.path else prefix
    return type(fault)(path, fault.reason)
