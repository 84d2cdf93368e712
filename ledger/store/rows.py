"""Values of rows, as the kinds that their columns have."""

from __future__ import annotations

from ledger.core.errors import InvariantViolation
from ledger.store.tables import Value


def text(value: Value) -> str:
    """The value of a text column."""
    if not isinstance(value, str):
        raise InvariantViolation("a text column held something else")
    return value


def number(value: Value) -> int:
    """The value of an integer column."""
    if not isinstance(value, int):
        raise InvariantViolation("an integer column held something else")
    return value


def blob(value: Value) -> bytes:
    """The value of a bytes column."""
    if not isinstance(value, bytes):
        raise InvariantViolation("a bytes column held something else")
    return value
