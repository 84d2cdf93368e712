"""The services as a client in any language meets them: real server, raw stubs, each store."""
