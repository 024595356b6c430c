"""Metrics and rate-limited log lines of share groups."""
