"""Frozen dataclasses that cost little to make.

`dataclass(frozen=True)` guards every field by a call when the object is made: five times the cost
of a plain one, a dozen times for each event that the ledger appends. Here the type checker alone
keeps them frozen, and CI runs it over everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True)
def value(*, kw_only: bool = False) -> Callable[[type[_Class]], type[_Class]]:
    """Decorates a class: a slotted dataclass, compared and hashed by its fields, whose fields no
    code that passes the type checker sets after it was made."""
    return dataclass(slots=True, unsafe_hash=True, kw_only=kw_only)
