"""What the sequencer asks of the inline projections. `projections` keeps it, `server.py` wires it.

Inline projections are read and written in the append's own transaction, so what was acknowledged is
visible to every later read. Each can be rebuilt from the log and compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ledger.core.claims import Claim, Tool
from ledger.core.draft import Draft
from ledger.core.ids import RunId
from ledger.core.log import Log
from ledger.core.run import Run
from ledger.store.interface import Changing, Reading


@dataclass(frozen=True, slots=True)
class Touched:
    """What a batch changed: the draft that is about to be committed, and each run's newest leaf."""

    log: Log
    draft: Draft
    leaves: Mapping[RunId, bytes]


class InlineProjection(Protocol):
    """A read model that is written with the append."""

    def write(self, changing: Changing, touched: Touched) -> None:
        """Writes the rows that the batch changed. Costs no more than their number."""


class RunRows(Protocol):
    """Folded runs."""

    def load(
        self, reading: Reading, log: Log, run_ids: Sequence[str], known: Mapping[str, Run]
    ) -> dict[str, Run]:
        """The runs that exist, each as of this transaction. Those in `known` are brought up to
        date in place, reading only the steps that changed since. Leases are locked and fresh.

        A closed run comes without its steps and is not whole, for it is driven no further;
        `load_steps` adds those that are needed."""

    def load_steps(self, reading: Reading, log: Log, named: Sequence[tuple[Run, str]]) -> None:
        """Adds to each run the step of that id, where it has one, as of this transaction. Costs
        their number, however long the runs are. Only for steps that are not loaded yet."""

    def refresh_leases(self, reading: Reading, log: Log, runs: Mapping[str, Run]) -> None:
        """Brings the leases of runs that are otherwise up to date to what renewals made of them,
        and locks them until the transaction ends."""


class ClaimRows(Protocol):
    """Claims on keys, what was answered from them, and tool bindings."""

    def claims(
        self, reading: Reading, log: Log, keys: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], Claim]:
        """The claims on those (tool, key) that are not free."""

    def replays(self, reading: Reading, log: Log, *, tool: str, key: str) -> list[tuple[str, str]]:
        """(run, step) of steps that were answered from the key, at most 32."""

    def tool(self, reading: Reading, log: Log, *, name: str, version: str) -> Tool:
        """The tool with that version's binding and its strongest class."""


@dataclass(frozen=True, slots=True)
class Projections:
    """The inline projections of a server."""

    runs: RunRows
    claims: ClaimRows
    written: tuple[InlineProjection, ...]
