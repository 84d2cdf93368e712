"""The policies file: rules for deciding, for all tenants and for single ones (ADR 9).

    {"all": {"settle_margin_ms": 0, "settle_margin_ms_by_tool": {"pay": 60000},
             "four_eyes": ["NON_IDEMPOTENT_WRITE"], "open_steps_max": 2000},
     "tenants": {"acme": {"four_eyes": []}}}

Read once, at the start. Each member is optional: a tenant's own comes before that of `all`, that of
`all` before the environment's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ledger.core.commands import OPEN_STEPS_MAX
from ledger.core.errors import Malformed
from ledger.core.ids import Tenant
from ledger.core.policy import Policies, Policy
from ledger.core.vocabulary import EffectClass

_Margin = Annotated[int, Field(ge=0, le=604_800_000)]


class _Rules(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    settle_margin_ms: _Margin | None = None
    settle_margin_ms_by_tool: dict[str, _Margin] | None = None
    four_eyes: frozenset[EffectClass] | None = None
    open_steps_max: Annotated[int, Field(ge=1, le=OPEN_STEPS_MAX)] | None = None

    def over(self, under: Policy) -> Policy:
        """`under`, with what is given here in its place."""
        margins, margin = self.settle_margin_ms_by_tool, self.settle_margin_ms
        return Policy(
            under.settle_margin_us if margin is None else margin * 1_000,
            under.settle_margin_us_by_tool
            if margins is None
            else {tool: ms * 1_000 for tool, ms in margins.items()},
            under.four_eyes if self.four_eyes is None else self.four_eyes,
            under.open_steps_max if self.open_steps_max is None else self.open_steps_max,
        )


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    all: _Rules = _Rules()
    tenants: dict[str, _Rules] = {}


def read_policies(path: Path, *, under: Policy) -> Policies:
    """The file's policies over those of the environment. Raises `OSError`, and `Malformed` naming
    what is wrong where: nothing is guessed about who has to agree."""
    try:
        file = _File.model_validate_json(path.read_bytes())
    except ValidationError as faults:
        first = faults.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Malformed(f"{path.name}:{where}" if where else path.name, first["msg"]) from None
    for_all = file.all.over(under)
    return Policies(
        for_all, {Tenant(name): rules.over(for_all) for name, rules in file.tenants.items()}
    )
