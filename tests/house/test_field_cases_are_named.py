"""Each public fault of the kinds that are promised is named by a test that answers to it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.support.checkouts import ROOT

CASES: Final = ROOT.parent / "shared" / "cases" / "field-cases.md"
KINDS: Final = (
    "Unknown outcome and reconciliation",
    "Who may reconcile",
    "Idempotency keys",
    "Leases, fencing and takeover",
    "Terminal states",
    "Recovery after a crash",
    "Resume and step identity",
    "Code and schema change",
    "gRPC: ambiguous answers and status codes",
    "gRPC: limits and server life",
    "Acknowledged means durable",
)
_KIND: Final = re.compile(r"^## (.+)$|^### ([A-Z]{3}-[0-9]{2}) ", re.MULTILINE)


@pytest.fixture
def cases() -> dict[str, list[str]]:
    """The cases of each kind."""
    if not CASES.is_file():
        pytest.skip("the folder shared/cases does not stand beside the checkout")
    found: dict[str, list[str]] = {}
    kind = ""
    for heading, case in _KIND.findall(CASES.read_text(encoding="utf-8")):
        if heading:
            kind = heading
        else:
            found.setdefault(kind, []).append(case)
    return found


def _named(folder: Path) -> set[str]:
    own = Path(__file__)
    return {
        case
        for file in folder.rglob("test_*.py")
        if file != own
        for case in re.findall(r"\b[A-Z]{3}-[0-9]{2}\b", file.read_text(encoding="utf-8"))
    }


def test_every_case_of_the_promised_kinds_is_named_by_a_test(cases: dict[str, list[str]]) -> None:
    named = _named(ROOT / "tests")
    missing = [case for kind in KINDS for case in cases[kind] if case not in named]
    assert not missing, f"no test answers to {', '.join(missing)}"
