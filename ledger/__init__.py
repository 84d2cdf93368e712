"""The audit ledger for agent runs: what an agent was about to do, what came of it, and the proof that the record is whole."""
