"""Net changes of a table brought to the target and merged into it."""
