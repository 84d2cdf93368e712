"""The pages under docs/formats say what the code does."""
