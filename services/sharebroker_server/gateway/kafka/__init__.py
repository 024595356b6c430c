"""The Kafka listener: Kafka's protocol over TCP, onto the same functions as the gRPC listener."""
