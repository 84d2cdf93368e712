"""The ledger beside an independent model of it, under a clock, a network and deaths of our own."""
