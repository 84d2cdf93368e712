"""Style as a test: import directions, names, lengths, and pages whose commands are run."""
