"""Statements of a dump: what each is about, and whether it runs, when, or is skipped."""
