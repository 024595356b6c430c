"""Who owns which shard or partition: rules, port, memory twin, Redis, and the holder of a process."""
