"""The structure of tables: compared with the source's, and brought to it."""
