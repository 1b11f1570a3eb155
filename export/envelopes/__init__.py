"""Changes as the records of an envelope: Debezium's events, or upserts."""
