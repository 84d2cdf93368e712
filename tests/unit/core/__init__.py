"""The byte-level core, one module at a time."""
