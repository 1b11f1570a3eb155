"""What records mean: Debezium's events, or upserts."""
