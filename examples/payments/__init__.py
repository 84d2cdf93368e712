"""A payment provider, a runtime that dies inside its tool, and a confirmer that asks."""
