"""Gives this group a ledger in the test's own process, on every store."""

from __future__ import annotations

from tests.support.accesses import access, opened
from tests.support.in_process import house, ledger

__all__ = ["access", "house", "ledger", "opened"]
