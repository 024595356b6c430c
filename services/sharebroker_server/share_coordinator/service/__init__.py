"""The share coordinator's gRPC services."""
