"""`ledger demo`: an agent runtime is killed again and again, and every effect happens once."""
