"""Keys and values of records of topics and files: read, and printed as PostgreSQL's text.

Values are of Kafka Connect's types, whether they came as JSON or as Avro; its schema, where one
comes along, says what they mean.
"""
