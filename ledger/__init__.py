"""The audit ledger for agent runs.

It holds what an agent was about to do and what came of it, and proves that the record is whole.
"""
