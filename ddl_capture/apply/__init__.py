"""Captured DDL applied to the target, and compared with the source."""
