"""Sharebroker's Python client: share groups over gRPC."""
