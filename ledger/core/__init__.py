"""What the record is made of: bytes, hashes, proofs, ids and decisions.

Everything here is pure. No module reads a file, a clock, the environment or a random source, and
none writes a log line: what is needed comes in as an argument, what was found goes out as a value.
"""
