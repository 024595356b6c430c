"""Spans for traced records."""
