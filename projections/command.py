"""`python -m server projections check|rebuild`: JSON lines, for `ledger projections` to show."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Final

from projections.mending import Mending, Progress, columns_of, key_of

EQUAL: Final = 0
DIFFERS: Final = 5


def run(action: str, mendings: Mapping[str, Mending]) -> int:
    """Checks or rebuilds the log of each tenant. 0: all equal, or put right; 5: something differs.

    No line holds payload bytes.
    """
    count = 0
    for tenant, mending in mendings.items():
        found = (mending.rebuild if action == "rebuild" else mending.check)(_progress(tenant))
        count += len(found)
        for each in found:
            _say(
                tenant=tenant,
                table=each.table,
                key=list(map(str, key_of(each))),
                columns=columns_of(each),
                missing=each.stored is None,
                too_many=each.rebuilt is None,
            )
    _say(action=action, logs=len(mendings), differences=count)
    return DIFFERS if count and action == "check" else EQUAL


def _progress(tenant: str) -> Progress:
    def told(done: int, size: int) -> None:
        _say(tenant=tenant, done=done, size=size)

    return told


def _say(**members: object) -> None:
    sys.stdout.write(json.dumps(members, separators=(",", ":")) + "\n")
    sys.stdout.flush()
