"""The share coordinator's gRPC edge."""
