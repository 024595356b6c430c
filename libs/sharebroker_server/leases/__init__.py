"""Leases of shards and partitions: names, placement, membership, the holder, and the store in Redis."""
