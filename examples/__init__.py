"""Worked examples; each one is run by a test."""
