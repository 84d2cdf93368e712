"""The gRPC side, without a network."""
