"""The blocking client: the asyncio client on a thread of its own.

Threads exchange batches, not single records.
"""
