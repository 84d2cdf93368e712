"""What an owner of the ledger sets about deciding: margins, who has to agree, how much may wait.

Applied under the head's lock and recorded in no entry: what was asked of a decision shows by the
entries around it (ADR 9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ledger.core.commands import OPEN_STEPS_MAX
from ledger.core.ids import Tenant
from ledger.core.vocabulary import EffectClass


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of one tenant. `four_eyes` are the effect classes whose decisions two people
    make; `open_steps_max` (1 to 2,000) is how many steps of a run may be planned or started at
    once."""

    settle_margin_us: int = 0
    settle_margin_us_by_tool: Mapping[str, int] = field(default_factory=dict)
    four_eyes: frozenset[EffectClass] = frozenset()
    open_steps_max: int = OPEN_STEPS_MAX

    def margin_us(self, tool: str) -> int:
        """How long past an operation deadline `not_executed` stays refused for a tool."""
        return self.settle_margin_us_by_tool.get(tool, self.settle_margin_us)

    def needs_two(self, effect: EffectClass) -> bool:
        """Whether a decision on a step of that class takes a second person."""
        return effect in self.four_eyes


@dataclass(frozen=True, slots=True)
class Policies:
    """The policy of each tenant: its own, else the one for all."""

    for_all: Policy = field(default_factory=Policy)
    by_tenant: Mapping[Tenant, Policy] = field(default_factory=dict)

    def of(self, tenant: Tenant) -> Policy:
        """The tenant's policy."""
        return self.by_tenant.get(tenant, self.for_all)
