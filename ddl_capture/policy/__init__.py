"""What captured DDL may do on the target, and what of it is skipped."""
