"""`python -m ledger.cli`, the same as the command `ledger`."""

from __future__ import annotations

from ledger.cli import main

main()
