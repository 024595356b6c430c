"""Appends: Produce, Publish, idempotent producers and transactions."""
