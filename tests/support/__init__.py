"""What tests stand on: real servers, real stores, readers of our own sources; no mocks."""
