"""The second door of the gateway: Kafka's protocol over TCP, onto the same handlers as gRPC."""
