"""What a store promises, tried on every store; no test asks which one it has."""
