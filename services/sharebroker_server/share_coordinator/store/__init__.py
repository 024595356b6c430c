"""Encodings of durable records."""
