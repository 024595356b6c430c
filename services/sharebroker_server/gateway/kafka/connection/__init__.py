"""The Kafka listener: sockets, request and response buffers, bounds."""
