"""Keeps a log with one current record per key short, without a background task."""
