"""Debezium's change events of a PostgreSQL source: form, order, what stands for TOAST."""
