"""A source that is a PostgreSQL server, received through a logical replication slot."""
