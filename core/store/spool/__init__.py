"""The spool: its format, its rows, and who reads it."""
