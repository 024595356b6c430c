"""The partitions that this process leads."""
