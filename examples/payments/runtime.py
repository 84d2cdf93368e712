"""A runtime that pays one order, and dies inside its tool where it is told to.

python -m examples.payments.runtime RUN [before|after]
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from examples.payments.provider import Provider
from ledger.client import Ledger, Step


def main(run_id: str, dies: str = "") -> None:
    """Pay once. Run again it resumes: what was settled is replayed, what is unknown stops it."""
    provider = Provider(Path(os.environ["PAYMENTS"]))
    with Ledger.connect() as ledger, ledger.run(run_id, holder="payer", wait_s=20, ttl_s=5) as run:
        run.plan([Step("pay-1", "pay", "1", {"cents": 1999})])
        with run.effect("pay-1", timeout_s=1) as effect:
            if effect.execute:
                if dies == "before":
                    os.kill(os.getpid(), signal.SIGKILL)
                payment = provider.pay(key=effect.key, cents=1999)
                if dies == "after":
                    os.kill(os.getpid(), signal.SIGKILL)
                effect.succeeded({"payment": payment}, external_reference=payment)
            elif effect.result is not None:
                sys.stdout.write(f"settled before: {effect.result.json()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
