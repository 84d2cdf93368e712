"""Both clients in one shape, so that a scenario is written once and holds for both.

The blocking client's calls are made where they stand: they hold up the test's event loop, and
nothing else needs it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any, Final, Literal

from ledger.client import AsyncLedger, Ledger, Settings

Kind = Literal["blocking", "asyncio"]
KINDS: Final[tuple[Kind, ...]] = ("blocking", "asyncio")


class Either:
    """A client, run or effect of either kind; what it does is awaited, what it shows is read."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def block(self, name: str, *given: Any, **named: Any) -> AbstractAsyncContextManager[Either]:
        """The block of that name: `run`, `resume` or `effect`."""
        return entered(getattr(self.held, name)(*given, **named))

    async def do(self, name: str, *given: Any, **named: Any) -> Any:
        """A call of that name."""
        answer = getattr(self.held, name)(*given, **named)
        return await answer if inspect.isawaitable(answer) else answer

    def show(self, name: str) -> Any:
        """A property of that name."""
        return getattr(self.held, name)


@asynccontextmanager
async def entered(
    block: AbstractContextManager[Any] | AbstractAsyncContextManager[Any],
) -> AsyncIterator[Either]:
    """The block of either kind, entered."""
    if isinstance(block, AbstractContextManager):
        with block as held:
            yield Either(held)
    else:
        async with block as held:
            yield Either(held)


def connected(
    kind: Kind, address: str, *, token: str, settings: Settings
) -> AbstractAsyncContextManager[Either]:
    """A client of that kind."""
    made = Ledger if kind == "blocking" else AsyncLedger
    return entered(made.connect(address, token=token, settings=settings))


async def forever() -> None:
    """Stays where it is until it is cancelled."""
    await asyncio.Event().wait()
