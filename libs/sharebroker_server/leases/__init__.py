"""Leases of shards and partitions:

rules, store port, stores in memory and Redis, membership, and the holder.
"""
