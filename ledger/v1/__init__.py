"""Generated messages and service stubs of the wire contract (`protos/ledger/v1`); made by `python protos/generate.py`."""
