"""Durable records as bytes."""
