"""Keeps the durable state of share-partitions: checkpoints and deltas in fenced logs."""
