"""Gives this group a ledger in the test's own process, on every store."""

from __future__ import annotations

from tests.support.in_process import house, ledger

__all__ = ["house", "ledger"]
