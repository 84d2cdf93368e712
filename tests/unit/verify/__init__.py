"""The verifier, fed with logs that are whole or broken in one place."""
