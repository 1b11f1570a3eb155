"""A statement read and rewritten for the target, by what the source reported."""
