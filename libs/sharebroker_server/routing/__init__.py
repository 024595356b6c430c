"""The directory of processes: who owns a shard or partition, and how to call it."""
