"""Where records go, and in which format: topics of Kafka, files."""
