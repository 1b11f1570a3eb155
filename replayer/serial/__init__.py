"""Transactions that are applied alone, in the order of the source: with DDL or TRUNCATE."""
