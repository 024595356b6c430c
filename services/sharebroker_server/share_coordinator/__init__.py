"""Persists the state of share-partitions as checkpoints and deltas in fenced logs."""
