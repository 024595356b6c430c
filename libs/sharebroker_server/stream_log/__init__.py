"""A fenced, append-only log for each shard: port, memory twin, Redis streams."""
