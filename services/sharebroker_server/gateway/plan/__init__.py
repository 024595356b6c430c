"""Planned batches for engines such as Spark."""
