"""Generated messages and service stubs of the wire contract in `protos/ledger/v1`.

Made by `python protos/generate.py`; nothing in this folder is edited by hand.
"""
