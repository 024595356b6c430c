"""The record log of a partition: batches as bytes, offsets, the hot tail in memory, retention."""
