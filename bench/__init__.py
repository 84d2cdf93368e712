"""Benches: how fast the ledger appends, beside what the same database does without it."""
