"""Principals, identity, settings: who may call and where the server listens."""
