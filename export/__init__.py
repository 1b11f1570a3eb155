"""Hands on what the sources changed: from the spool to topics of Kafka or to files, each once."""
