"""The gRPC side: bytes to a command, the call, and the answer or status back to bytes.

Nothing is decided here. Needs the extra `server`.
"""
