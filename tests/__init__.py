"""The tests; `tests/README.md` says which group holds what and how long each may take."""
