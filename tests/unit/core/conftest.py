"""How generated cases are run here."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A loaded machine is slow at times; that says nothing about the code under test.
settings.register_profile("core", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("core")
