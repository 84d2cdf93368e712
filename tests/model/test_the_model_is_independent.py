"""The model can judge the product only while it knows nothing of it, and can be read whole."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PARTS = ("model.py", "model_runs.py", "model_steps.py")
LINES_MAX = 299


@pytest.mark.parametrize("part", PARTS)
def test_the_model_imports_nothing_but_its_own_parts(part: str) -> None:
    tree = ast.parse((Path(__file__).parent / part).read_text(encoding="utf-8"))
    imported = {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }
    imported |= {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    }
    own = {f"tests.model.{each.removesuffix('.py')}" for each in PARTS}
    assert imported <= {"__future__", "typing"} | own


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_the_model_stays_short(part: str) -> None:
    text = (Path(__file__).parent / part).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LINES_MAX
