"""Read models over the log, one to a file.

Each sees `ledger.core` and the store's interface; nothing in `ledger` sees it back.
"""
