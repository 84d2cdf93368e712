"""An agent in a process of its own: says what it did, and waits where it is told to.

python -m tests.e2e.sdk.agent ADDRESS TOKEN_FILE ACT RUN KEY
"""

from __future__ import annotations

import sys
from dataclasses import replace

from ledger.client import Ledger, Step

PAY = Step("s1", tool="pay", version="1", arguments={"amount": 12})


def keyed(key: str) -> Step:
    """The same payment under a key that other runs may use."""
    return replace(PAY, key=key)


def hold(client: Ledger, run: str, step: Step, *, timeout_s: float) -> None:
    """Start a step and wait in its body; report once told to go on."""
    with client.run(run, holder="held-agent", ttl_s=5) as driven:
        driven.plan([step])
        with driven.effect("s1", timeout_s=timeout_s) as effect:
            print("started", effect.key)
            sys.stdin.readline()
            effect.succeeded({"paid": 12})
    print("closed")


def drive(client: Ledger, run: str) -> None:
    """Hold the lease between two steps."""
    with client.run(run, holder="held-agent", ttl_s=5) as driven:
        driven.plan([PAY])
        print("driving")
        sys.stdin.readline()
    print("closed")


def main() -> None:
    """Do one act."""
    address, token_file, act, run, key = sys.argv[1:]
    with Ledger.connect(address, token_file=token_file) as client:
        match act:
            case "hold":
                hold(client, run, PAY, timeout_s=1)
            case "hold_keyed":
                hold(client, run, keyed(key), timeout_s=60)
            case "drive":
                drive(client, run)
            case _:
                raise SystemExit(f"no such act: {act}")


if __name__ == "__main__":
    main()
