"""Values that nobody of this project wrote, run against the core where they stand beside it."""
