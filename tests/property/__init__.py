"""Generated histories against models."""
