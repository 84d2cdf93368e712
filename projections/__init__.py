"""Read models over the log, one to a file: each sees `ledger.core` and the store's interface, and nothing sees it back."""
