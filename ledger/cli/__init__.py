"""The command `ledger`. Importing this costs nothing; `main` needs the base install only."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command of `sys.argv` and end the process with its exit code."""
    from ledger.cli.app import main as run

    run()
