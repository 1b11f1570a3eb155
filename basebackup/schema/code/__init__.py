"""A dump freed of code that the target does not run."""
