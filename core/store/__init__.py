"""Everything that pgrepl keeps in schema "replication" on the target."""
