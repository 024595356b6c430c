"""Planned batches: ranges of offsets that an engine such as Spark commits together."""
