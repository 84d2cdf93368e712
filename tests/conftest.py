"""Loads the parts that every test group shares; each part stands in `tests/support`."""

from __future__ import annotations

pytest_plugins = [
    "tests.support.ci",
    "tests.support.minutes",
    "tests.support.postgres_fixtures",
    "tests.support.stores",
]
