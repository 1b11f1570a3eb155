"""SQL as trees, by PostgreSQL's own grammar, and schemas renamed in it."""
