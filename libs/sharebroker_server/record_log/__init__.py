"""The record log of a partition: record batches, offsets, the hot cache, and retention."""
