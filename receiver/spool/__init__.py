"""What is written to the spool: gathered, batched, committed."""
