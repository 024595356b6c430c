"""Metrics, health checks, and their HTTP server."""
