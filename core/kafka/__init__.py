"""Clusters of Kafka: the way to them, and what their topics are like."""
