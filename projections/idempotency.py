"""Inline projection `idempotency`: claims on keys, steps answered from them, and tool bindings."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from ledger.core.claims import Claim, Tool
from ledger.core.draft import Draft
from ledger.core.log import Log
from ledger.core.vocabulary import EffectClass
from ledger.store.inline import Touched
from ledger.store.interface import Changing, Reading
from ledger.store.rows import blob, number, text
from ledger.store.tables import CLAIMS, REPLAYS, TOOLS, Row

_REPLAYS_MAX = 32


class IdempotencyRows:
    """Reads and writes claims, replays and tool bindings."""

    def write(self, changing: Changing, touched: Touched) -> None:
        """The rows of the claims and tools that the batch changed, and its replays."""
        draft, tenant = touched.draft, touched.log.tenant
        changing.upsert(CLAIMS, [claim_row(tenant, c) for c in draft.touched_claims.values()])
        changing.insert(REPLAYS, [(tenant, *replay) for replay in draft.new_replays])
        changing.upsert(TOOLS, tool_rows(tenant, draft))

    def claims(
        self, reading: Reading, log: Log, keys: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], Claim]:
        """The claims on those (tool, key) that are not free."""
        wanted: list[Row] = [(log.tenant, tool, key) for tool, key in keys]
        return {
            (text(row[1]), text(row[2])): claim_of_row(row)
            for row in (reading.get(CLAIMS, wanted) if wanted else [])
        }

    def replays(self, reading: Reading, log: Log, *, tool: str, key: str) -> list[tuple[str, str]]:
        """(run, step) of steps that were answered from the key, at most 32."""
        rows = reading.page(
            REPLAYS,
            equal={"tenant": log.tenant, "tool": tool, "key": key},
            order=("run", "step"),
            limit=_REPLAYS_MAX,
        )
        return [(text(row[3]), text(row[4])) for row in rows]

    def tool(self, reading: Reading, log: Log, *, name: str, version: str) -> Tool:
        """The tool with that version's binding and its strongest class."""
        found = Tool(name, loaded={version})
        keys: list[Row] = [(log.tenant, name, version), (log.tenant, name, "")]
        for row in reading.get(TOOLS, keys):
            bound, allowed = text(row[3]), text(row[4])
            if row[2] == "":
                found.strongest = EffectClass(bound)
                continue
            found.index[version] = number(row[5])
            if bound:
                found.bound[version] = EffectClass(bound)
            if allowed:
                found.allowed[version] = EffectClass(allowed)
        return found


def claim_row(tenant: str, claim: Claim) -> Row:
    """A claim's row."""
    return (
        tenant,
        claim.tool,
        claim.key,
        claim.run,
        claim.step,
        claim.state.value,
        claim.settled_index,
        orjson.dumps(claim.dump()),
    )


def claim_of_row(row: Row) -> Claim:
    """The claim of a row."""
    return Claim.load(
        tool=text(row[1]),
        key=text(row[2]),
        run=text(row[3]),
        step=text(row[4]),
        state=text(row[5]),
        index=number(row[6]),
        values=orjson.loads(blob(row[7])),
    )


def tool_rows(tenant: str, draft: Draft) -> list[Row]:
    """The rows of the tools that the draft changed: of each version, and of the strongest class."""
    rows: dict[tuple[str, str], Row] = {}
    for name, version in draft.touched_tools:
        tool = draft.tools[name]
        rows[(name, version)] = tool_row(tenant, tool, version)
        if tool.strongest is not None:
            rows[(name, "")] = (tenant, name, "", tool.strongest.value, "", 0)
    return list(rows.values())


def tool_row(tenant: str, tool: Tool, version: str) -> Row:
    """The row of a tool's version."""
    bound, allowed = tool.bound.get(version), tool.allowed.get(version)
    return (
        tenant,
        tool.name,
        version,
        bound.value if bound else "",
        allowed.value if allowed else "",
        tool.index.get(version, 0),
    )
