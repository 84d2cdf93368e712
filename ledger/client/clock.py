"""The one clock of the SDK: it never goes back, and keeps counting while the machine is suspended.

`time.monotonic` stands still during suspend on Linux, so that a laptop that slept through an
operation deadline would run the tool after it. CLOCK_BOOTTIME counts on (clock_gettime(2)).
"""

from __future__ import annotations

import time
from typing import Final

_BOOT_TIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed_s() -> float:
    """Seconds since a fixed moment of this machine's uptime, suspend included where the system
    tells.
    """
    if _BOOT_TIME is None:
        return time.monotonic()
    return time.clock_gettime(_BOOT_TIME)
