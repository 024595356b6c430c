"""A client of another Kafka cluster: connections, and the rules of fetch sessions and metadata."""
