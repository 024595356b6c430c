"""Dead letter queues and their settings beside a real Kafka 4.4.0."""
