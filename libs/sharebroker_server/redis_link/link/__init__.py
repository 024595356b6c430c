"""One pipelined connection to Redis."""
