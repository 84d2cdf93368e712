"""Finds the third-party values beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

VECTORS = Path(__file__).resolve().parents[3] / "shared" / "vectors"


@pytest.fixture(scope="session")
def vectors() -> Path:
    """The folder of third-party values; absent, each test that needs it says so by name."""
    if not VECTORS.is_dir():
        pytest.skip(f"shared vectors not found at {VECTORS}")
    return VECTORS
