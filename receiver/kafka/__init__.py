"""Topics of Kafka, received through librdkafka."""
